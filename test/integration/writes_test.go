package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// TestRequests counts what syncd asks of its own API server and of a peer's, by
// their audit logs.
func TestRequests(t *testing.T) {
	whole := t
	set := clusterset(t, "hub", "east")
	hub, east := set[0], set[1]
	for _, m := range set {
		m.namespace(t, "shop")
	}
	hub.addPeer(t, "east", east.peerKubeconfig(t))
	syncd := hub.syncd(t)
	synced := func() error { return syncd.metric(t, state("east", "Synced")) }
	eventually(t, "the peer read", synced)

	for _, c := range []struct {
		where  *member
		user   string
		others int // slices of services that nobody exports
	}{{east, peerUser, 1000}, {hub, syncdUser, 100}} {
		t.Run("slices are read once when their service becomes exported, in "+c.where.id, func(t *testing.T) {
			name := "late-" + c.where.id
			c.where.manySlices(t, "other", c.others)
			c.where.manySlices(t, name, 30)
			c.where.apply(t, service("shop", name, httpService))
			writesOnceQuiet(t, hub, syncdUser)
			marks := mark(t, hub, east)
			c.where.apply(t, export("shop", name))
			eventually(t, "all endpoints", func() error { return hub.wantEndpoints(t, name, 30) })
			writesOnceQuiet(t, hub, syncdUser)
			var reads []string
			for m, before := range marks {
				for _, e := range readsOf(t, m)[before:] {
					reads = append(reads, e.User+" "+e.Verb+" "+e.Path)
				}
			}
			want := c.user + " list /apis/discovery.k8s.io/v1/namespaces/shop/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D" + name
			if len(reads) != 1 || reads[0] != want {
				t.Errorf("reads are\n%s\nwant\n%s", strings.Join(reads, "\n"), want)
			}
		})
	}

	t.Run("each changed slice is one write, and nothing is read", func(t *testing.T) {
		before := writesOnceQuiet(t, hub, syncdUser)
		marks := mark(t, hub, east)
		client := east.kube.DiscoveryV1().EndpointSlices("shop")
		for i := range 10 {
			s, err := client.Get(t.Context(), fmt.Sprintf("late-east-%d", i), metav1.GetOptions{})
			must(t, err)
			s.Endpoints[0].Addresses[0] = fmt.Sprintf("10.9.0.%d", i)
			_, err = client.Update(t.Context(), s, metav1.UpdateOptions{})
			must(t, err)
		}
		eventually(t, "the changes", func() error {
			changed := 0
			for _, a := range hub.mirrored(t, "shop", "late-east")["east"] {
				if strings.HasPrefix(a, "10.9.0.") {
					changed++
				}
			}
			if changed != 10 {
				return fmt.Errorf("%d changes are here", changed)
			}
			return nil
		})
		writes := writesOnceQuiet(t, hub, syncdUser)[len(before):]
		written := map[string]int{}
		for _, w := range writes {
			written[w.Verb+" "+w.Resource+" "+w.Name]++
			if w.Verb != "update" || w.Resource != "endpointslices" {
				t.Errorf("a write beside the slices: %s %s/%s", w.Verb, w.Resource, w.Name)
			}
		}
		if len(writes) != 10 || len(written) != 10 {
			t.Errorf("%d writes of %d slices, want 10: %v", len(writes), len(written), written)
		}
		for m, read := range marks {
			if more := readsOf(t, m)[read:]; len(more) > 0 {
				t.Errorf("reads in %s: %v", m.id, more)
			}
		}
	})

	t.Run("an export that races changes of its slices ends with what is there", func(t *testing.T) {
		const rounds, groups = 40, 8
		var wait sync.WaitGroup
		for g := range groups {
			wait.Go(func() {
				for i := g; i < rounds; i += groups {
					name := fmt.Sprintf("race-%d", i)
					must(t, east.race(t, name, i))
				}
			})
		}
		wait.Wait()
		settled := func(i int) error {
			got := hub.mirrored(t, "shop", fmt.Sprintf("race-%d", i))["east"]
			slices.Sort(got)
			if want := []string{fmt.Sprintf("10.3.%d.9", i), fmt.Sprintf("10.4.%d.9", i)}; !slices.Equal(got, want) {
				return fmt.Errorf("endpoints are %v, want %v", got, want)
			}
			return nil
		}
		for i := range rounds {
			eventually(t, fmt.Sprintf("race-%d", i), func() error { return settled(i) })
		}
		writes := writesOnceQuiet(t, hub, syncdUser)
		for i := range rounds {
			must(t, settled(i)) // and it stays so
		}
		written := map[string]int{}
		for _, w := range writes {
			if w.Code >= 400 {
				t.Errorf("a write failed: %+v", w)
			}
			if w.Resource == "endpointslices" && strings.HasPrefix(w.Name, "race-") {
				written[w.Name]++
			}
		}
		for name, n := range written {
			if n > 12 { // the changes of one slice below
				t.Errorf("%d writes of %s", n, name)
			}
		}
	})

	t.Run("a restart with nothing changed writes nothing and reads no service on its own", func(t *testing.T) {
		settled := len(writesOnceQuiet(t, hub, syncdUser))
		marks := mark(t, hub, east)
		must(t, syncd.Stop(t.Context()))
		syncd = hub.syncd(whole) // goes on after this part
		eventually(t, "the peer read", synced)
		if after := writesOnceQuiet(t, hub, syncdUser)[settled:]; len(after) > 0 {
			t.Errorf("writes: %v", after)
		}
		for m, before := range marks {
			for _, e := range readsOf(t, m)[before:] {
				if strings.Contains(e.Path, "labelSelector=kubernetes.io") {
					t.Errorf("%s: %s %s", m.id, e.Verb, e.Path)
				}
			}
		}
	})

	t.Run("a service whose slices cannot be read is unknown, never empty, and said", func(t *testing.T) {
		roles := east.kube.RbacV1().ClusterRoles()
		setVerbs := func(verbs ...string) {
			t.Helper()
			role, err := roles.Get(t.Context(), "k8s-mcs-peer", metav1.GetOptions{})
			must(t, err)
			for i, rule := range role.Rules {
				if rule.Resources[0] == "endpointslices" {
					role.Rules[i].Verbs = verbs
				}
			}
			_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
			must(t, err)
		}
		setVerbs("watch")
		eventually(t, "the change of the role", func() error {
			review, err := east.kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: peerUser, ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: "shop", Verb: "list", Group: "discovery.k8s.io", Resource: "endpointslices",
				}},
			}, metav1.CreateOptions{})
			must(t, err)
			if review.Status.Allowed {
				return errors.New("it may list slices")
			}
			return nil
		})
		east.put(t, "shop", "new", "10.5.0.1")
		const problem = `mcs_syncd_problem{cluster="east",reason="Forbidden",resource="endpointslices.discovery.k8s.io/first-read",secret="k8s-mcs/peer-east"} 1`
		eventually(t, "the problem", func() error { return syncd.metric(t, problem) })
		if err := oneLine(syncd.Log(), `"msg":"cannot read cluster"`, "first-read", "shop/new", "list and watch endpointslices.discovery.k8s.io: apply deploy/rbac/peer.yaml"); err != nil {
			t.Error(err)
		}
		if _, err := hub.mcs.MulticlusterV1beta1().ServiceImports("shop").Get(t.Context(), "new", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the import of a service that is unknown: %v", err)
		}
		east.apply(t, slice("shop", "late-east", "late-east-0", webPorts, "10.9.9.9"))
		eventually(t, "a change of another service meanwhile", func() error {
			if !slices.Contains(hub.mirrored(t, "shop", "late-east")["east"], "10.9.9.9") {
				return errors.New("it is not here")
			}
			return nil
		})
		setVerbs("list", "watch")
		eventually(t, "its endpoints", func() error { return hub.wantMirrored(t, "shop", "new", map[string]string{"east": "10.5.0.1"}) })
		eventually(t, "no problem any more", func() error {
			if syncd.metric(t, problem) == nil {
				return errors.New("there is one")
			}
			return nil
		})
	})
}

// race exports a service of two slices while they change, one of them until it is
// another one.
func (m *member) race(t *testing.T, name string, i int) error {
	t.Helper()
	client := m.kube.DiscoveryV1().EndpointSlices("shop")
	first := sliceObject(name, name+"-1", fmt.Sprintf("10.3.%d.1", i))
	if _, err := client.Create(t.Context(), first, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := client.Create(t.Context(), sliceObject(name, name+"-0", fmt.Sprintf("10.4.%d.1", i)), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := m.Apply(t.Context(), []byte(service("shop", name, httpService))); err != nil {
		return err
	}
	exported := make(chan error, 1)
	go func() { exported <- m.Apply(t.Context(), []byte(export("shop", name))) }()
	for n := range 10 {
		s, err := client.Get(t.Context(), first.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s.Endpoints[0].Addresses[0] = fmt.Sprintf("10.3.%d.%d", i, n)
		if _, err := client.Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			return err
		}
		if n == i%10 {
			if err := client.Delete(t.Context(), name+"-0", metav1.DeleteOptions{}); err != nil {
				return err
			}
			if _, err := client.Create(t.Context(), sliceObject(name, name+"-2", fmt.Sprintf("10.4.%d.9", i)), metav1.CreateOptions{}); err != nil {
				return err
			}
		}
	}
	return <-exported
}

// manySlices creates slices with an endpoint each.
func (m *member) manySlices(t *testing.T, service string, count int) {
	t.Helper()
	config := m.Config()
	config.QPS, config.Burst = 2000, 2000
	kube, err := kubernetes.NewForConfig(config)
	must(t, err)
	var wait sync.WaitGroup
	const writers = 8
	failed := make([]error, writers)
	for w := range writers {
		wait.Go(func() {
			for i := w; i < count; i += writers {
				s := sliceObject(service, fmt.Sprintf("%s-%d", service, i), fmt.Sprintf("10.8.%d.%d", i/250, i%250+1))
				if _, err := kube.DiscoveryV1().EndpointSlices("shop").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
					failed[w] = err
					return
				}
			}
		})
	}
	wait.Wait()
	must(t, errors.Join(failed...))
}

func sliceObject(service, name, address string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{mcs.LabelSliceService: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
	}
}

// wantEndpoints checks how many mirrored endpoints a service in shop has.
func (m *member) wantEndpoints(t *testing.T, name string, want int) error {
	t.Helper()
	got := 0
	for _, addresses := range m.mirrored(t, "shop", name) {
		got += len(addresses)
	}
	if got != want {
		return fmt.Errorf("%d endpoints of %s in %s, want %d", got, name, m.id, want)
	}
	return nil
}

// readsOf are the requests of syncd so far that read, but for Leases, probes, and
// watches that go on.
func readsOf(t *testing.T, m *member) []kubetest.AuditEvent {
	t.Helper()
	var reads []kubetest.AuditEvent
	for _, e := range requests(t, m) {
		goesOn := e.Verb == "watch" && !strings.Contains(e.Path, "sendInitialEvents=true")
		if !e.Writes() && e.Resource != "leases" && !goesOn && !strings.Contains(e.Path, "limit=1&resourceVersion=0") {
			reads = append(reads, e)
		}
	}
	return reads
}

// mark is how many reads there are so far.
func mark(t *testing.T, members ...*member) map[*member]int {
	t.Helper()
	marks := map[*member]int{}
	for _, m := range members {
		marks[m] = len(readsOf(t, m))
	}
	return marks
}
