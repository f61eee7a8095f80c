package syncd

import (
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/apply"
)

// A service whose write is refused is tried again after refusedFirst, then twice
// as long each time, up to refusedLast: until somebody acts, the answer is the
// same.
const refusedFirst, refusedLast = 100 * time.Millisecond, 5 * time.Minute

// isRefusal reports whether the API server took a write for wrong or not
// allowed, rather than failed to take it: quota, admission, a full service
// range, or a foreign object under the name.
func isRefusal(err error) bool {
	_, taken := errors.AsType[*apply.NameTakenError](err)
	return taken || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) ||
		apierrors.IsInternalError(err) || apierrors.IsBadRequest(err)
}

// refusalOf is the API's own message, for the condition.
func refusalOf(err error) string {
	if s, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return s.ErrStatus.Message
	}
	return err.Error()
}

// refusals are the services whose writes are refused. As a reader of the watch of
// Services it has them tried again when one is deleted in their namespace: a name
// or a place in a quota may be free.
type refusals struct {
	again func(mcs.ServiceKey)

	mu   sync.Mutex // guards keys
	keys map[mcs.ServiceKey]bool
	wait workqueue.TypedRateLimiter[mcs.ServiceKey]
}

func newRefusals(again func(mcs.ServiceKey)) *refusals {
	return &refusals{
		again: again, keys: map[mcs.ServiceKey]bool{},
		wait: workqueue.NewTypedItemExponentialFailureRateLimiter[mcs.ServiceKey](refusedFirst, refusedLast),
	}
}

// add notes a refusal and tells how long to wait.
func (r *refusals) add(key mcs.ServiceKey) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[key] = true
	return r.wait.When(key)
}

// forget takes a service out that is refused no more.
func (r *refusals) forget(key mcs.ServiceKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.keys, key)
	r.wait.Forget(key)
}

// Delete implements cache.ReflectorStore.
func (r *refusals) Delete(object any) error {
	gone, err := meta.Accessor(object)
	if err != nil {
		return nil // an object without a namespace frees none
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.keys {
		if key.Namespace == gone.GetNamespace() {
			r.again(key)
		}
	}
	return nil
}

var _ cache.ReflectorStore = (*refusals)(nil)

// Add, Update, Replace and Resync implement cache.ReflectorStore; they free nothing.
func (*refusals) Add(any) error               { return nil }
func (*refusals) Update(any) error            { return nil }
func (*refusals) Replace([]any, string) error { return nil }
func (*refusals) Resync() error               { return nil }
