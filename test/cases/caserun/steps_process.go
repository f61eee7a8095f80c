package caserun

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest/tamper"
)

// doAPI changes the way of all processes to the API server of a cluster.
func doAPI(_ context.Context, w *world, e Event) error {
	for _, way := range w.to(e.Cluster) {
		if e.Unblock != nil {
			for _, b := range way.blocks {
				b.Remove()
			}
		}
		if e.Set == "" {
			continue
		}
		if e.Set != "reachable" {
			way.link.Cut()
			continue
		}
		if e.ExpireWatches {
			// One answer for each resource: the client has to list, and its next watch is new.
			for _, resource := range resources {
				way.proxy.Add(tamper.Rule{
					Match:  tamper.Match{Resource: resource.Resource, Verb: tamper.Watch},
					Effect: tamper.Refuse(410, 0), Times: 1,
				})
			}
		}
		way.link.Restore()
	}
	return nil
}

// doNetwork changes the way of one syncd to the API server of one peer.
func doNetwork(_ context.Context, w *world, e Event) error {
	found := false
	for _, way := range w.to(e.Peer) {
		if way.from != e.Cluster {
			continue
		}
		found = true
		if e.Set == "cut" {
			way.link.Cut()
			continue
		}
		way.link.Restore()
	}
	if !found {
		return fmt.Errorf("no process in %s speaks to the API server of %s", e.Cluster, e.Peer)
	}
	return nil
}

// block makes the requests hang that the case names.
func (w *world) block(r *way) {
	for _, b := range w.c.Config.APIBlock {
		r.blocks = append(r.blocks, r.proxy.Add(tamper.Rule{
			Match:  tamper.Match{Resource: b.Resource, Verb: tamper.Verb(b.Verb)},
			Effect: tamper.Hang(),
		}))
	}
}

// roleOf is the ClusterRole of a process, and the user that has it.
func roleOf(process string) string {
	if process == "dns" {
		return "k8s-mcs-core-dns"
	}
	return "k8s-mcs-syncd"
}

// changeRole takes verbs on a resource from a role, or gives back what was taken.
func (w *world) changeRole(ctx context.Context, cluster, process, resource string, verbs []string, grant bool) error {
	m, err := w.member(cluster)
	if err != nil {
		return err
	}
	w.changed[m] = true
	roles := m.kube.RbacV1().ClusterRoles()
	role, err := roles.Get(ctx, roleOf(process), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read role of %s: %w", process, err)
	}
	found := false
	for i := range role.Rules {
		if slices.Contains(role.Rules[i].Resources, resource) {
			found = true
			role.Rules[i].Verbs = changeVerbs(role.Rules[i], verbs, grant)
		}
	}
	if !found {
		return fmt.Errorf("change role of %s: it has no rule about %s", process, resource)
	}
	if _, err := roles.Update(ctx, role, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("change role of %s: %w", process, err)
	}
	return nil
}

// changeVerbs never leaves a rule without verbs, which would not be valid.
func changeVerbs(rule rbacv1.PolicyRule, verbs []string, grant bool) []string {
	const none = "none"
	left := slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return has(verbs, v) || v == none })
	if grant {
		left = append(left, verbs...)
	}
	if len(left) == 0 {
		left = []string{none}
	}
	return left
}

// readVerbs are what list-and-watch needs.
var readVerbs = []string{"list", "watch"}

func doRBAC(ctx context.Context, w *world, e Event) error {
	for _, cluster := range e.processClusters(w) {
		if e.Grant != "" {
			if err := w.changeRole(ctx, cluster, e.Process, e.Grant, readVerbs, true); err != nil {
				return err
			}
		}
		if e.Revoke != "" {
			if err := w.changeRole(ctx, cluster, e.Process, e.Revoke, readVerbs, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// denyAtStart takes rights before anything starts.
func (w *world) denyAtStart(ctx context.Context) error {
	for _, deny := range w.c.Config.RBACDeny {
		for _, cluster := range (Event{Process: deny.Process}).processClusters(w) {
			if err := w.changeRole(ctx, cluster, deny.Process, deny.Resource, deny.Verbs, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// processClusters are the clusters where the process of an event runs.
func (e Event) processClusters(w *world) []string {
	if e.Process == "dns" && e.Cluster == "" {
		return []string{home}
	}
	return e.targets(w)
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func doCRDs(ctx context.Context, w *world, e Event) error {
	m, err := w.member(e.Cluster)
	if err != nil {
		return err
	}
	w.changed[m] = true
	if e.Set == "installed" {
		return m.InstallCRDs(ctx)
	}
	client := m.objects.Resource(definitions)
	for _, name := range []string{"serviceexports.multicluster.x-k8s.io", "serviceimports.multicluster.x-k8s.io"} {
		if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove CRD: %w", err)
		}
		deadline := time.Now().Add(startTimeout)
		for {
			_, err := client.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("remove CRD %s: it is still there", name)
			}
			if err := sleep(ctx, pollPause); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) crdsAtStart(ctx context.Context) error {
	for _, cluster := range slices.Sorted(maps.Keys(w.c.Config.CRDsAtStart)) {
		if err := doCRDs(ctx, w, Event{Cluster: cluster, Set: w.c.Config.CRDsAtStart[cluster]}); err != nil {
			return err
		}
	}
	return nil
}

func doStart(ctx context.Context, w *world, e Event) error {
	if e.Process == "dns" {
		return w.dns.again(ctx, w)
	}
	return w.eachSyncd(e, func(s *syncdProcess) error { return w.startSyncd(ctx, s) })
}

func doStop(ctx context.Context, w *world, e Event) error {
	if e.Process == "dns" {
		return w.dns.end(ctx)
	}
	return w.eachSyncd(e, func(s *syncdProcess) error { return w.stopSyncd(ctx, s) })
}

func doRestart(ctx context.Context, w *world, e Event) error {
	for range max(e.Times, 1) {
		if err := doStop(ctx, w, e); err != nil {
			return err
		}
		if err := doStart(ctx, w, e); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) eachSyncd(e Event, do func(*syncdProcess) error) error {
	for _, cluster := range e.targets(w) {
		s, ok := w.syncds[cluster]
		if !ok {
			return fmt.Errorf("%s syncd: there is none in %s", e.Do, cluster)
		}
		if err := do(s); err != nil {
			return err
		}
	}
	return nil
}

// again starts the server as it was.
func (d *dnsServer) again(ctx context.Context, w *world) error {
	p, err := w.bed.Run(ctx, "mcs-core-dns of "+w.c.ID, []string{w.dnsBinary, "-conf", d.conf})
	if err != nil {
		return err
	}
	d.earlier += d.Log()
	d.Process, d.stopped, d.reloads = p, false, 0
	return d.waitListening(ctx)
}

func (d *dnsServer) end(ctx context.Context) error {
	d.stopped = true
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	return d.Stop(ctx)
}

func doReload(ctx context.Context, w *world, e Event) error {
	if e.Process != "dns" || e.Change != "comment" {
		return skipf("verb reload: the runner knows process dns and change comment only")
	}
	for range max(e.Times, 1) {
		if err := w.dns.reload(ctx, w); err != nil {
			return err
		}
	}
	return nil
}
