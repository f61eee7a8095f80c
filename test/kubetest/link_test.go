package kubetest

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testLink(t *testing.T, c *Cluster) {
	link, err := c.NewLink()
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	direct, err := c.UserKubeconfig("far", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	content, err := link.Kubeconfig(direct)
	if err != nil {
		t.Fatal(err)
	}
	config, err := restConfig(content)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host == c.Config().Host {
		t.Fatalf("the link's kubeconfig points at %s, which is the server itself", config.Host)
	}
	far, near := client(t, config), client(t, c.Config())
	watch, err := far.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch over the link: %v", err)
	}
	defer watch.Stop()
	change := func(name string) {
		t.Helper()
		if err := c.Apply(t.Context(), []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+"}}")); err != nil {
			t.Fatal(err)
		}
	}
	sees := func(name string) bool {
		deadline := time.After(10 * time.Second)
		for {
			select {
			case event, ok := <-watch.ResultChan():
				if !ok {
					return false
				}
				if object, ok := event.Object.(metav1.Object); ok && object.GetName() == name {
					return true
				}
			case <-deadline:
				return false
			}
		}
	}
	change("passed")
	if !sees("passed") {
		t.Fatal("a change did not come over the open link")
	}

	link.Drop()
	change("dropped")
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := version(short, far); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request over a link that drops: %v, want that it times out", err)
	}
	select {
	case event, ok := <-watch.ResultChan():
		t.Errorf("a watch over a link that drops: event %+v, open %v; want silence", event, ok)
	default:
	}
	if err := version(t.Context(), near); err != nil {
		t.Errorf("a request beside the link: %v", err)
	}
	link.Restore()
	if !sees("dropped") {
		t.Error("a change from while the link dropped did not come after it")
	}

	link.Cut()
	if sees("cut") {
		t.Error("a watch lives on over a cut link")
	}
	if err := version(t.Context(), far); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a request over a cut link: %v, want that it is refused", err)
	}
	link.Restore()
	if err := version(t.Context(), far); err != nil {
		t.Errorf("a request over the restored link: %v", err)
	}

	// Closing does not wait for what hangs.
	link.Drop()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", link.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	link.Close()
}
