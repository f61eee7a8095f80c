package peer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/syncd/policy"
)

// Leases are the Leases of peers in the namespace of their Secrets: one for each,
// renewed by proof of life only.
type Leases struct {
	client    kubernetes.Interface
	namespace string
	table     *watch.Table[*coordinationv1.Lease]
	// wrote is told of each call.
	wrote func(verb string, err error)
}

// NewLeases makes Leases that have read nothing yet.
func NewLeases(client kubernetes.Interface, namespace string, wrote func(verb string, err error)) *Leases {
	return &Leases{
		client: client, namespace: namespace, wrote: wrote,
		table: watch.NewTable(watch.TableOptions[*coordinationv1.Lease]{
			Convert: func(object any) (mcs.ServiceKey, *coordinationv1.Lease, bool) {
				lease, ok := object.(*coordinationv1.Lease)
				if !ok {
					return mcs.ServiceKey{}, nil, false
				}
				return mcs.ServiceKey{Namespace: lease.Namespace, Name: lease.Name}, lease, true
			},
		}),
	}
}

// Run follows the Leases until ctx ends.
func (l *Leases) Run(ctx context.Context, report func(resource string, err error)) {
	client := l.client.CoordinationV1().Leases(l.namespace)
	resource := watch.Resource{
		Name:    "leases.coordination.k8s.io",
		Example: &coordinationv1.Lease{},
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		Watch: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			return client.Watch(ctx, options)
		},
	}.Selecting(mcs.LabelPeer)
	resource.Run(ctx, l.table, func(err error) { report(resource.Name, err) })
}

// HasSynced reports whether the Leases have been read.
func (l *Leases) HasSynced() bool { return l.table.HasSynced() }

// Remembered is what the Lease of a peer says.
func (l *Leases) Remembered(id mcs.ClusterID) Record {
	lease, ok := l.table.One(l.key(leaseName(id)))
	if !ok {
		return Record{Cluster: id}
	}
	record := Record{Cluster: id, State: policy.State(lease.Annotations[mcs.AnnotationState]), Reason: lease.Annotations[mcs.AnnotationReason]}
	if at, err := time.Parse(time.RFC3339, lease.Annotations[mcs.AnnotationHeldSince]); err == nil {
		record.HeldSince = at
	}
	if lease.Spec.RenewTime != nil {
		record.Alive = lease.Spec.RenewTime.Time
	}
	return record
}

// Keep makes the Leases say what records say, and removes those of other peers. A
// proof of life is written when it is younger by renewEvery than the one there.
func (l *Leases) Keep(ctx context.Context, records []Record, renewEvery time.Duration) error {
	gone := map[string]bool{}
	for _, key := range l.table.Keys() {
		gone[key.Name] = true
	}
	slices.SortFunc(records, func(a, b Record) int { return strings.Compare(string(a.Cluster), string(b.Cluster)) })
	var failed error
	for _, record := range records {
		delete(gone, leaseName(record.Cluster))
		if err := l.keep(ctx, record, renewEvery); err != nil {
			failed = fmt.Errorf("keep Lease of peer %s: %w", record.Cluster, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		lease, ok := l.table.One(l.key(name))
		if !ok {
			continue
		}
		err := l.client.CoordinationV1().Leases(l.namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &lease.UID}})
		l.wrote("delete", err)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed = fmt.Errorf("delete Lease %s/%s: %w", l.namespace, name, err)
			continue
		}
		l.table.Forget(lease)
	}
	return failed
}

func (l *Leases) keep(ctx context.Context, record Record, renewEvery time.Duration) error {
	client := l.client.CoordinationV1().Leases(l.namespace)
	have, exists := l.table.One(l.key(leaseName(record.Cluster)))
	want := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: leaseName(record.Cluster)}}
	if exists {
		want = have.DeepCopy()
	}
	changed := fill(want, record, renewEvery)
	if exists && !changed {
		return nil
	}
	var (
		after *coordinationv1.Lease
		err   error
		verb  = "update"
	)
	if exists {
		after, err = client.Update(ctx, want, metav1.UpdateOptions{})
	} else {
		verb = "create"
		after, err = client.Create(ctx, want, metav1.CreateOptions{})
	}
	l.wrote(verb, err)
	switch {
	case err == nil:
		l.table.Put(after)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		// The watch brings what is there, and the next look writes.
	default:
		return err
	}
	return nil
}

// fill makes a Lease say what a record says; it reports a change.
func fill(lease *coordinationv1.Lease, record Record, renewEvery time.Duration) bool {
	changed := false
	set := func(m *map[string]string, key, value string) {
		if (*m)[key] == value {
			return
		}
		changed = true
		if value == "" {
			delete(*m, key)
			return
		}
		if *m == nil {
			*m = map[string]string{}
		}
		(*m)[key] = value
	}
	set(&lease.Labels, mcs.LabelPeer, string(record.Cluster))
	set(&lease.Annotations, mcs.AnnotationState, string(record.State))
	set(&lease.Annotations, mcs.AnnotationReason, record.Reason)
	held := ""
	if !record.HeldSince.IsZero() {
		held = record.HeldSince.UTC().Format(time.RFC3339)
	}
	set(&lease.Annotations, mcs.AnnotationHeldSince, held)

	holder, seconds := string(record.Cluster), int32(max(1, record.StaleAfter.Seconds()))
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != holder || lease.Spec.LeaseDurationSeconds == nil || *lease.Spec.LeaseDurationSeconds != seconds {
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &holder, &seconds
		changed = true
	}
	if before := lease.Spec.RenewTime; !record.Alive.IsZero() && (before == nil || record.Alive.Sub(before.Time) >= renewEvery) {
		lease.Spec.RenewTime = &metav1.MicroTime{Time: record.Alive}
		changed = true
	}
	return changed
}

func (l *Leases) key(name string) mcs.ServiceKey {
	return mcs.ServiceKey{Namespace: l.namespace, Name: name}
}

// leaseName is the name of a peer's Lease.
func leaseName(id mcs.ClusterID) string { return "peer-" + string(id) }
