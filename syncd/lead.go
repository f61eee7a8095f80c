package syncd

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// leaderLease is the Lease, in the namespace of the peer Secrets, of the replica
// that writes.
const leaderLease = "syncd"

// resignTimeout bounds how long the end of syncd waits until the Lease is given up.
const resignTimeout = 3 * time.Second

// lead says whether this replica is the one that writes.
type lead struct {
	mu    sync.Mutex      // guards the fields below
	term  context.Context // nil outside a term; it ends with it
	begun chan struct{}   // closed when a term begins
}

func newLead() *lead { return &lead{begun: make(chan struct{})} }

// wait returns the present term, or waits for one until ctx ends.
func (l *lead) wait(ctx context.Context) (term context.Context, ok bool) {
	for ctx.Err() == nil {
		l.mu.Lock()
		term, begun := l.term, l.begun
		l.mu.Unlock()
		if term != nil && term.Err() == nil {
			return term, true
		}
		select {
		case <-ctx.Done():
		case <-begun:
		}
	}
	return nil, false
}

// present is the term that this replica has now, nil when another one writes.
func (l *lead) present() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == nil || l.term.Err() != nil {
		return nil
	}
	return l.term
}

// leads reports whether this replica writes now.
func (l *lead) leads() bool {
	return l.present() != nil
}

// begin begins a term, which lasts as long as its context.
func (l *lead) begin(term context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if term.Err() != nil {
		return // over before it began
	}
	l.term = term
	close(l.begun)
}

// end makes ready for another term.
func (l *lead) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term != nil {
		l.term, l.begun = nil, make(chan struct{})
	}
}

// elect takes part in the election until ctx ends; the Lease is given up then, if
// this replica has it.
func (s *syncer) elect(ctx context.Context) {
	began := func(term context.Context) {
		s.log.Info("this replica writes now")
		s.lead.begin(term)
		s.enqueueAll()
	}
	if !s.config.LeaderElect {
		began(ctx)
		<-ctx.Done()
		return
	}
	host, err := os.Hostname()
	if err != nil {
		host = "syncd"
	}
	identity := host + "-" + rand.Text()[:8]
	var silent klog.Logger // what fails is reported as a problem of this cluster
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: reportingLock{
				&resourcelock.LeaseLock{
					LeaseMeta:  metav1.ObjectMeta{Namespace: s.config.Namespace, Name: leaderLease},
					Client:     s.clients.Kube.CoordinationV1(),
					LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
				},
				func(err error) { s.own.Report("leases.coordination.k8s.io/"+leaderLease, err) },
			},
			LeaseDuration:   s.config.LeaseDuration,
			RenewDeadline:   s.config.LeaseDuration * 2 / 3,
			RetryPeriod:     s.config.LeaseDuration * 2 / 15,
			ReleaseOnCancel: true,
			Name:            leaderLease,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: began,
				OnStoppedLeading: func() {},
				OnNewLeader: func(holder string) {
					if holder != identity {
						s.log.Info("another replica writes", "holder", holder)
					}
				},
			},
		})
		if err != nil {
			s.log.Error("cannot take part in the election", "err", err) // config has checked the times
			return
		}
		elector.Run(klog.NewContext(ctx, silent))
		s.lead.end()
		if ctx.Err() == nil {
			s.log.Warn("this replica writes no more: it could not renew its Lease in time", "lease", s.config.Namespace+"/"+leaderLease)
		}
	}
}

// reportingLock tells how calls for the Lease went.
type reportingLock struct {
	resourcelock.Interface
	report func(error)
}

// Get implements resourcelock.Interface.
func (l reportingLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil || apierrors.IsNotFound(err) {
		l.report(nil)
	} else if ctx.Err() == nil {
		l.report(fmt.Errorf("get Lease %s: %w", leaderLease, err))
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l reportingLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.wrote(ctx, "create", l.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface.
func (l reportingLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.wrote(ctx, "update", l.Interface.Update(ctx, record))
}

// wrote reports what is no race with another replica.
func (l reportingLock) wrote(ctx context.Context, verb string, err error) error {
	switch {
	case err == nil:
		l.report(nil)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), ctx.Err() != nil:
	default:
		l.report(fmt.Errorf("%s Lease %s: %w", verb, leaderLease, err))
	}
	return err
}
