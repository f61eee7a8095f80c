package syncd

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

func TestARefusedServiceWaitsLongerEachTimeUpToABound(t *testing.T) {
	r := newRefusals(func(mcs.ServiceKey) {})
	key := mcs.ServiceKey{Namespace: "shop", Name: "web"}
	last := time.Duration(0)
	for range 20 {
		wait := r.add(key)
		if wait < last || wait > refusedLast {
			t.Fatalf("it waits %s after %s", wait, last)
		}
		last = wait
	}
	if last != refusedLast {
		t.Errorf("it waits %s at last, want %s", last, refusedLast)
	}
	r.forget(key)
	if wait := r.add(key); wait != refusedFirst {
		t.Errorf("once it was not refused it waits %s, want %s", wait, refusedFirst)
	}
}

func TestADeletedServiceHasTheRefusedOnesOfItsNamespaceTriedAgain(t *testing.T) {
	var again []mcs.ServiceKey
	r := newRefusals(func(key mcs.ServiceKey) { again = append(again, key) })
	here, there := mcs.ServiceKey{Namespace: "shop", Name: "web"}, mcs.ServiceKey{Namespace: "other", Name: "web"}
	r.add(here)
	r.add(there)
	gone := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "old"}}
	for _, call := range []func() error{
		func() error { return r.Delete(gone) },
		func() error { r.forget(here); return r.Delete(gone) },
		func() error { return r.Delete("no object") },
	} {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	if len(again) != 1 || again[0] != here {
		t.Errorf("tried again are %v, want %s once", again, here)
	}
}
