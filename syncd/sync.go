package syncd

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/syncd/apply"
	"github.com/k8s-mcs/k8s-mcs/syncd/config"
	"github.com/k8s-mcs/k8s-mcs/syncd/merge"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
	"github.com/k8s-mcs/k8s-mcs/syncd/peer"
	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
	"github.com/k8s-mcs/k8s-mcs/syncd/policy"
	"github.com/k8s-mcs/k8s-mcs/syncd/status"
)

const (
	// workerCount is how many services are worked on at once; each waits for
	// API calls most of the time.
	workerCount = 8
	// A service that fails is tried again after retryFirst, then twice as long
	// each time, up to retryLast.
	retryFirst, retryLast = 20 * time.Millisecond, 30 * time.Second
)

type queue = workqueue.TypedRateLimitingInterface[mcs.ServiceKey]

func newQueue() queue {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[mcs.ServiceKey](retryFirst, retryLast))
}

// syncer is syncd at work.
type syncer struct {
	config  config.Config
	log     *slog.Logger
	metrics *metrics
	clients watch.Clients

	lead   *lead
	leases *peer.Leases
	own    *peer.Cluster
	peers  *peer.Registry
	cache  *apply.Cache
	writer *apply.Writer
	queue  queue
	// mistakes are those that were told of own ServiceExports.
	mistakes mistakes
	// refusals are the services that wait for somebody to act.
	refusals *refusals

	// families are those of this cluster, nil until they are known.
	families atomic.Pointer[[]model.Family]
	ready    atomic.Bool
}

// sync brings one service to where it should be: what is offered, what is
// agreed, what should stand here, what has to change, and how it went.
//
// The order of writes keeps every step between usable: an import never names a
// clusterset IP that is not there yet or not there any more.
func (s *syncer) sync(ctx context.Context, key mcs.ServiceKey) error {
	have, _ := s.cache.Imports.One(key)
	if have != nil && !plan.OwnsImport(have) {
		taken := &apply.NameTakenError{Object: "serviceimports " + key.String()}
		view := s.peers.View(key, nil)
		return errors.Join(taken, s.syncExport(ctx, key, view, taken))
	}
	stored, err := storedExports(key, have)
	if err != nil {
		s.log.Warn("stored offers are left as they are", "service", key.String(), "err", err)
	}
	view := s.peers.View(key, stored)
	switch {
	case !s.cache.HasNamespace(key.Namespace):
		err = nil // nothing is imported into a namespace that is not here
	case err != nil && len(view.Unknown) > 0: // what an unknown peer offered cannot be told
	default:
		var imp *model.Import
		if merged, ok := merge.Merge(view.Exports, plan.PortsOf(have)); ok {
			imp = &merged
		}
		imp, allowed := policy.Deny(imp, view, s.peers.Denied(key))
		err = s.write(ctx, key, imp, allowed, have)
	}
	return errors.Join(err, s.syncExport(ctx, key, view, err))
}

// write makes the objects of one service what they should be.
func (s *syncer) write(ctx context.Context, key mcs.ServiceKey, imp *model.Import, view model.View, have *api.ServiceImport) error {
	local := plan.Local{
		Cluster: s.config.ClusterID, Prefix: s.config.DerivedPrefix,
		GKECompat: s.config.GKECompat, Families: *s.families.Load(),
	}
	derived := plan.DerivedOf(view, s.cache.Services.Of(key), s.cache.Slices.Of(key), local)
	service, slices := derived.Service, derived.Slices
	in := plan.ImportInput{Import: imp, Exports: merge.Order(view.Exports), Service: service, Have: have}

	serviceChange := plan.Service(imp, service, local)
	sliceChanges := policy.Slices(imp, view, slices, s.peers.Places(view, slices), local)
	if imp == nil {
		if held(view, slices) {
			return nil
		}
		_, err := s.writer.ServiceImport(ctx, plan.ServiceImport(in, local))
		if err != nil {
			return err
		}
		if err := s.writer.EndpointSlices(ctx, append(sliceChanges, derived.StraySlices...)); err != nil {
			return err
		}
		if err := s.writeEndpoints(ctx, key, nil, nil, local); err != nil {
			return err
		}
		for _, change := range append(derived.StrayServices, serviceChange) {
			_, deleteErr := s.writer.Service(ctx, change)
			err = errors.Join(err, deleteErr)
		}
		return err
	}

	if err := s.writer.EndpointSlices(ctx, derived.StraySlices); err != nil {
		return err
	}
	var serviceErr error
	leaving := serviceChange.Verb == plan.Delete
	if leaving {
		in.Service = nil // the import lets go of the address before the Service does
	} else if in.Service, serviceErr = s.writer.Service(ctx, serviceChange); serviceErr != nil {
		if !isRefusal(serviceErr) {
			return serviceErr
		}
		in.Service, in.Refusal = service, refusalOf(serviceErr)
	}
	in.Slices = visible(plan.Standing(slices, sliceChanges))
	sliceErr := errors.Join(
		s.writer.EndpointSlices(ctx, sliceChanges),
		s.writeEndpoints(ctx, key, imp, in.Slices, local),
	)
	if in.Refusal == "" && isRefusal(sliceErr) {
		in.Refusal = refusalOf(sliceErr)
	}
	written, err := s.writer.ServiceImport(ctx, plan.ServiceImport(in, local))
	if err != nil {
		return errors.Join(serviceErr, sliceErr, err)
	}
	if leaving {
		_, serviceErr = s.writer.Service(ctx, serviceChange)
	}
	for _, stray := range derived.StrayServices {
		_, err := s.writer.Service(ctx, stray)
		serviceErr = errors.Join(serviceErr, err)
	}
	in.Have = written
	statusErr := s.writer.ImportStatus(ctx, plan.ImportStatus(in, local, metav1.Now()))
	return errors.Join(serviceErr, sliceErr, statusErr)
}

// writeEndpoints makes the v1 Endpoints of a derived Service what they should
// be, where they are asked for.
func (s *syncer) writeEndpoints(ctx context.Context, key mcs.ServiceKey, imp *model.Import, standing []*discoveryv1.EndpointSlice, local plan.Local) error {
	if s.cache.Endpoints == nil {
		return nil
	}
	have, _ := s.cache.Endpoints.One(key)
	return s.writer.Endpoints(ctx, plan.Endpoints(imp, standing, have, local))
}

// syncExport writes the conditions of this cluster's own ServiceExports, of both
// kinds where there are two. importErr is how the import went.
func (s *syncer) syncExport(ctx context.Context, key mcs.ServiceKey, view model.View, importErr error) error {
	_, problem, declared := s.own.Offer(key)
	if !declared {
		s.mistakes.news(key, "")
		return nil // the two readers of one watch are a moment apart; this event comes again
	}
	finding := status.Finding{Problem: problem, Conflicts: merge.Conflicts(view.Exports), Over: s.own.LeftOut(key)}
	if taken, ok := errors.AsType[*apply.NameTakenError](importErr); ok {
		finding.Taken = taken.Object
	}
	var failed []error
	standard := false // its annotations count first
	if have, ok := s.cache.Exports.One(key); ok && have.DeletionTimestamp == nil {
		standard = true
		s.tellMistakes(ctx, have, s.writer.TellExport)
		failed = append(failed, s.writer.ExportStatus(ctx, status.Export(have, finding, metav1.Now())))
	}
	if s.cache.GKEExports != nil {
		if have, ok := s.cache.GKEExports.One(key); ok && have.DeletionTimestamp == nil {
			if !standard {
				s.tellMistakes(ctx, have, s.writer.TellGKEExport)
			}
			failed = append(failed, s.writer.GKEExportStatus(ctx, status.Export(have, finding, metav1.Now())))
		}
	}
	return errors.Join(failed...)
}

// held reports whether slices of a cluster that cannot be told are here while
// nothing says what they belong to: then all stays as it is.
func held(view model.View, slices []*discoveryv1.EndpointSlice) bool {
	for _, h := range slices {
		if view.IsUnknown(policy.Source(h)) {
			return true
		}
	}
	return false
}

func storedExports(key mcs.ServiceKey, have *api.ServiceImport) ([]model.Export, error) {
	if have == nil || have.Annotations[mcs.AnnotationExports] == "" {
		return nil, nil
	}
	return model.DecodeExports(key, have.Annotations[mcs.AnnotationExports])
}
