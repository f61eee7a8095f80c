package kubetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// supervised is a kube-controller-manager that is started again when it ends
// by itself, as a kubelet would do it.
type supervised struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	process *Process
}

// restartPause is between the end of a controller manager and the next one.
const restartPause = 500 * time.Millisecond

// startManager runs kube-controller-manager if the cluster is to have one, and
// returns when it does its work: when the service account of the namespace
// "default" is there.
func (c *Cluster) startManager(ctx context.Context) error {
	if !c.config.Controllers {
		return nil
	}
	c.mu.Lock()
	if c.manager == nil || c.manager.ended() {
		life, cancel := context.WithCancel(context.WithoutCancel(ctx)) // longer than this call
		s := &supervised{cancel: cancel, done: make(chan struct{})}
		c.manager = s
		go c.supervise(life, s)
	}
	c.mu.Unlock()

	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("make client of %s: %w", c.name, err)
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, last = client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if last != nil && !apierrors.IsNotFound(last) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("start kube-controller-manager of %s: no default service account: %w", c.name, err)
	}
	return nil
}

// supervise runs until its context ends, and leaves nothing running.
func (c *Cluster) supervise(ctx context.Context, s *supervised) {
	defer close(s.done)
	for ctx.Err() == nil {
		p, err := c.bed.Run(ctx, c.name+"/kube-controller-manager", []string{
			c.bed.kube, "kube-controller-manager",
			"-kubeconfig=" + c.managerFile,
			"-pki-dir=" + c.pki.dir,
		})
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, errClosed) {
				_, _ = fmt.Fprintln(c.bed.log, err)
			}
			return
		}
		s.mu.Lock()
		s.process = p
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-p.Exited():
			_, _ = fmt.Fprintf(c.bed.log, "kube-controller-manager of %s ended by itself (%s), starting it again\n", c.name, p.state())
		}
		select {
		case <-ctx.Done():
		case <-time.After(restartPause):
		}
	}
}

func (s *supervised) current() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

func (s *supervised) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// superviseEnd makes sure that no controller manager is started any more. The
// one that runs is left to the caller, among processes.
func (c *Cluster) superviseEnd() {
	c.mu.Lock()
	s := c.manager
	c.mu.Unlock()
	if s != nil {
		s.cancel()
		<-s.done
	}
}
