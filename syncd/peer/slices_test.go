package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
	"github.com/k8s-mcs/k8s-mcs/syncd/policy"
)

var webKey, dbKey = mcs.ServiceKey{Namespace: "shop", Name: "web"}, mcs.ServiceKey{Namespace: "shop", Name: "db"}

// shelf is an exportedSlices whose lists a test answers.
type shelf struct {
	*exportedSlices
	told     []string
	reports  []error
	synced   int
	lists    int
	answer   *discoveryv1.EndpointSliceList
	fail     error
	whileAsk func() // called between the list and its answer
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{answer: &discoveryv1.EndpointSliceList{}}
	s.exportedSlices = newExportedSlices(exportedSlicesOptions{
		Convert: func(object any) (mcs.ServiceKey, model.Slice, bool) {
			slice, ok := object.(*discoveryv1.EndpointSlice)
			if !ok {
				t.Fatalf("%T is no slice", object)
			}
			return serviceOf(slice), model.Slice{Name: slice.Name, TriggerTime: slice.ResourceVersion, AddressType: model.Family(slice.AddressType)}, true
		},
		List: func(context.Context, mcs.ServiceKey) (*discoveryv1.EndpointSliceList, error) {
			s.lists++
			if s.whileAsk != nil {
				s.whileAsk()
			}
			return s.answer, s.fail
		},
		Changed: func(key mcs.ServiceKey) { s.told = append(s.told, key.Name) },
		Synced:  func() { s.synced++ },
		Report:  func(err error) { s.reports = append(s.reports, err) },
	})
	t.Cleanup(s.queue.ShutDown)
	return s
}

// at is a slice of a service at a version.
func at(service, name string, version int) *discoveryv1.EndpointSlice {
	v := strconv.Itoa(version)
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, ResourceVersion: v,
			Labels: map[string]string{mcs.LabelSliceService: service},
		},
		AddressType: discoveryv1.AddressType(v), // makes each version another value
	}
}

func listAt(version int, items ...*discoveryv1.EndpointSlice) *discoveryv1.EndpointSliceList {
	list := &discoveryv1.EndpointSliceList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(version)}}
	for _, i := range items {
		list.Items = append(list.Items, *i)
	}
	return list
}

// holds is what is kept of a service: "?" for unknown, else NAME@VERSION.
func (s *shelf) holds(key mcs.ServiceKey) string {
	all, known := s.Of(key)
	if !known {
		return "?"
	}
	var text []string
	for _, slice := range all {
		text = append(text, slice.Name+"@"+slice.TriggerTime)
	}
	return strings.Join(text, " ")
}

func (s *shelf) heard() string {
	slices.Sort(s.told)
	defer func() { s.told = nil }()
	return strings.Join(slices.Compact(s.told), " ")
}

// A list of one service and the watch meet in every order.
func TestAListOfOneServiceIsMergedWithTheWatchByVersion(t *testing.T) {
	type watched = func(*shelf)
	update := func(service, name string, version int) watched {
		return func(s *shelf) { _ = s.Update(at(service, name, version)) }
	}
	gone := func(service, name string, version int) watched {
		return func(s *shelf) { _ = s.Delete(at(service, name, version)) }
	}
	for name, c := range map[string]struct {
		before, during, after []watched
		list                  *discoveryv1.EndpointSliceList
		web, db               string // db was exported all the time, with db-1@5
	}{
		"nothing happens":                   {list: listAt(20, at("web", "web-1", 7), at("web", "web-2", 8)), web: "web-1@7 web-2@8", db: "db-1@5"},
		"a service without slices is empty": {list: listAt(20), web: "", db: "db-1@5"},
		"what was watched before is in the list": {
			before: []watched{update("web", "web-1", 9)},
			list:   listAt(20, at("web", "web-1", 9)), web: "web-1@9", db: "db-1@5",
		},
		"an update that the list lacks": {
			during: []watched{update("web", "web-1", 21)},
			list:   listAt(20, at("web", "web-1", 7)), web: "web-1@21", db: "db-1@5",
		},
		"an update that the list has": {
			during: []watched{update("web", "web-1", 15)},
			list:   listAt(20, at("web", "web-1", 15)), web: "web-1@15", db: "db-1@5",
		},
		"a list that is ahead of the watch": {
			during: []watched{update("web", "web-1", 15)}, after: []watched{update("web", "web-1", 16)},
			list: listAt(20, at("web", "web-1", 19)), web: "web-1@19", db: "db-1@5",
		},
		"a watch that catches up and goes on": {
			after: []watched{update("web", "web-1", 16), update("web", "web-1", 19), update("web", "web-1", 21)},
			list:  listAt(20, at("web", "web-1", 19)), web: "web-1@21", db: "db-1@5",
		},
		"a slice that comes while the list is made": {
			during: []watched{update("web", "web-2", 21)},
			list:   listAt(20, at("web", "web-1", 7)), web: "web-1@7 web-2@21", db: "db-1@5",
		},
		"a slice that goes while the list is made": {
			during: []watched{gone("web", "web-1", 21)},
			list:   listAt(20, at("web", "web-1", 7), at("web", "web-2", 8)), web: "web-2@8", db: "db-1@5",
		},
		"a slice that went before the list, which the watch tells late": {
			during: []watched{update("web", "web-1", 15)}, after: []watched{update("web", "web-1", 16), gone("web", "web-1", 17)},
			list: listAt(20), web: "", db: "db-1@5",
		},
		"a late event does not bring back what the list lacks": {
			after: []watched{update("web", "web-1", 16)},
			list:  listAt(20), web: "", db: "db-1@5",
		},
		"an update of what the list lacks, before its deletion is told": {
			during: []watched{update("web", "web-1", 15)},
			list:   listAt(20), web: "", db: "db-1@5",
		},
		"a slice that went and came back before the list": {
			during: []watched{gone("web", "web-1", 15)}, after: []watched{update("web", "web-1", 18)},
			list: listAt(20, at("web", "web-1", 18)), web: "web-1@18", db: "db-1@5",
		},
		"a late deletion does not take what came back": {
			after: []watched{gone("web", "web-1", 15)},
			list:  listAt(20, at("web", "web-1", 18)), web: "web-1@18", db: "db-1@5",
		},
		"a slice that moves away while the list is made": {
			during: []watched{update("other", "web-1", 21)},
			list:   listAt(20, at("web", "web-1", 7)), web: "", db: "db-1@5",
		},
		"a slice that moves to another exported service while the list is made": {
			during: []watched{update("db", "web-1", 21)},
			list:   listAt(20, at("web", "web-1", 7)), web: "", db: "db-1@5 web-1@21",
		},
		"a slice of another service that moved in before the list": {
			after: []watched{update("web", "db-1", 18)},
			list:  listAt(20, at("web", "db-1", 18)), web: "db-1@18", db: "",
		},
		"a slice of another service that moves in while the list is made": {
			during: []watched{update("web", "db-1", 21)},
			list:   listAt(20), web: "db-1@21", db: "",
		},
		"an event of another service says nothing": {
			during: []watched{update("other", "other-1", 21), update("db", "db-1", 22)},
			list:   listAt(20, at("web", "web-1", 7)), web: "web-1@7", db: "db-1@22",
		},
		"a whole list while it is made decides": {
			during: []watched{func(s *shelf) { _ = s.Replace([]any{at("web", "web-1", 25), at("db", "db-1", 5)}, "30") }},
			list:   listAt(20, at("web", "web-1", 7), at("web", "web-2", 8)), web: "web-1@25", db: "db-1@5",
		},
		"a whole list of a server that was restored decides": {
			after: []watched{
				func(s *shelf) { _ = s.Replace([]any{at("web", "web-1", 3)}, "4") },
				update("web", "web-2", 6),
			},
			list: listAt(20, at("web", "web-1", 7), at("web", "web-2", 8)), web: "web-1@3 web-2@6", db: "",
		},
		"an un-export while the list is made": {
			during: []watched{func(s *shelf) { s.drop(webKey) }},
			list:   listAt(20, at("web", "web-1", 7)), web: "?", db: "db-1@5",
		},
		"an un-export and a new export while the list is made": {
			during: []watched{func(s *shelf) { s.drop(webKey); s.want(webKey) }},
			list:   listAt(20, at("web", "web-1", 7)), web: "?", db: "db-1@5", // until it is read again
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			s.want(dbKey)
			_ = s.Replace([]any{at("web", "web-1", 3), at("db", "db-1", 5)}, "6")
			for _, event := range c.before {
				event(s)
			}
			if s.want(webKey) || s.holds(webKey) != "?" {
				t.Fatalf("a service just exported holds %q", s.holds(webKey))
			}
			s.heard()
			s.answer = c.list
			s.whileAsk = func() {
				for _, event := range c.during {
					event(s)
					if got, _ := s.Of(webKey); len(got) > 0 && len(s.reading) > 0 {
						t.Error("a service that is being read is not unknown")
					}
				}
			}
			if !s.next(t.Context()) {
				t.Fatal("nothing was read")
			}
			for _, event := range c.after {
				event(s)
			}
			if got := s.holds(webKey); got != c.web {
				t.Errorf("web is %q, want %q", got, c.web)
			}
			if got := s.holds(dbKey); got != c.db {
				t.Errorf("db is %q, want %q", got, c.db)
			}
			if c.web != "?" && !strings.Contains(s.heard(), "web") {
				t.Error("nobody was told of web")
			}
			if s.lists != 1 || len(s.reading) > 0 || len(s.reports) > 0 {
				t.Errorf("%d lists, %d open, reports %v", s.lists, len(s.reading), s.reports)
			}
		})
	}
}

func TestSlicesOfServicesThatNobodyExportsAreNotKept(t *testing.T) {
	s := newShelf(t)
	s.want(webKey)
	_ = s.Replace([]any{at("web", "web-1", 1), at("db", "db-1", 2), at("", "none", 3)}, "6")
	if s.synced != 1 || s.heard() != "web" {
		t.Errorf("synced %d times", s.synced)
	}
	_ = s.Add(at("db", "db-2", 7))
	_ = s.Update(at("db", "db-2", 8))
	_ = s.Delete(at("db", "db-1", 9))
	if s.heard() != "" || s.table.Len() != 1 || s.holds(webKey) != "web-1@1" {
		t.Errorf("%d slices are kept, %q of web", s.table.Len(), s.holds(webKey))
	}
	s.drop(webKey)
	_ = s.Update(at("web", "web-1", 10))
	if s.table.Len() != 0 || s.holds(webKey) != "?" {
		t.Errorf("%d slices are kept after the un-export", s.table.Len())
	}
	if s.lists != 0 || s.queue.Len() != 0 {
		t.Error("what the first whole list has was asked for")
	}
}

func TestAServiceThatCannotBeReadIsUnknownAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newShelf(t)
		_ = s.Replace(nil, "6")
		refused := errors.New("no")
		s.fail, s.answer = refused, listAt(20, at("web", "web-1", 7))
		ended := make(chan struct{})
		go func() { defer close(ended); s.run(ctx) }()
		s.want(webKey)
		time.Sleep(time.Minute) // of the bubble
		synctest.Wait()
		if got := s.lists; got < 5 || got > 12 {
			t.Errorf("%d lists within a minute, want fewer and fewer", got)
		}
		if s.holds(webKey) != "?" || s.heard() != "web" || len(s.reports) != s.lists || !errors.Is(s.reports[0], refused) {
			t.Errorf("web is %q, reports %v", s.holds(webKey), s.reports)
		}
		if !strings.Contains(s.reports[0].Error(), "shop/web") {
			t.Errorf("%q does not name the service", s.reports[0])
		}
		s.mu.Lock()
		s.fail = nil
		s.mu.Unlock()
		time.Sleep(2 * readLast)
		synctest.Wait()
		if s.holds(webKey) != "web-1@7" || s.heard() != "web" || s.reports[len(s.reports)-1] != nil {
			t.Errorf("web is %q, last report %v", s.holds(webKey), s.reports[len(s.reports)-1])
		}

		s.fail = refused
		s.want(dbKey)
		synctest.Wait()
		if s.reports[len(s.reports)-1] == nil {
			t.Error("nothing was said of db")
		}
		s.drop(dbKey)
		if s.reports[len(s.reports)-1] != nil {
			t.Error("a problem of a service that is not exported any more stays")
		}
		cancel()
		<-ended
	})
}

func TestAServiceThatHangsDoesNotKeepOthersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newShelf(t)
		_ = s.Replace(nil, "6")
		s.options.List = func(ctx context.Context, key mcs.ServiceKey) (*discoveryv1.EndpointSliceList, error) {
			if key == dbKey {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return listAt(20, at("web", "web-1", 7)), nil
		}
		ended := make(chan struct{})
		go func() { defer close(ended); s.run(ctx) }()
		s.want(dbKey)
		synctest.Wait()
		s.want(webKey)
		synctest.Wait()
		if s.holds(webKey) != "web-1@7" || s.holds(dbKey) != "?" {
			t.Errorf("web is %q, db is %q", s.holds(webKey), s.holds(dbKey))
		}
		time.Sleep(readTimeout + time.Second)
		synctest.Wait()
		if len(s.reports) == 0 || !errors.Is(s.reports[0], context.DeadlineExceeded) {
			t.Errorf("reports are %v", s.reports)
		}
		cancel()
		<-ended
	})
}

// A view never takes a cluster for one without endpoints before they were read.
func TestAViewHasNoOfferOfSlicesThatAreUnknown(t *testing.T) {
	cluster := func(id mcs.ClusterID, peer *PeerParts) *Cluster {
		c := NewCluster(Options{
			ID: id, Log: slog.New(slog.DiscardHandler), Peer: peer,
			Changed: func(mcs.ServiceKey) {}, Synced: func() {},
		})
		t.Cleanup(c.slices.queue.ShutDown)
		_ = c.exports.Replace(nil, "1")
		_ = c.services.Replace([]any{&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}}, "1")
		_ = c.slices.Replace(nil, "1")
		return c
	}
	own, east := cluster("hub", nil), cluster("east", &PeerParts{Judge: func() {}})
	east.compare(func() []mcs.ServiceKey { return nil }, time.Time{}, time.Now())
	r := &Registry{options: RegistryOptions{Own: own}, peers: map[mcs.ClusterID]*entry{"east": {cluster: east}}}
	export := &api.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	stored := []model.Export{{Cluster: "hub", Key: webKey}, {Cluster: "east", Key: webKey}}
	show := func() string {
		var text []string
		view := r.View(webKey, stored)
		for _, e := range view.Exports {
			text = append(text, fmt.Sprintf("%s:%d unknown=%v", e.Cluster, len(e.Slices), view.IsUnknown(e.Cluster)))
		}
		return strings.Join(text, ", ")
	}
	answer := func(c *Cluster) {
		slice := at("web", "web-1", 7)
		slice.AddressType = discoveryv1.AddressTypeIPv4
		c.slices.options.List = func(context.Context, mcs.ServiceKey) (*discoveryv1.EndpointSliceList, error) {
			return listAt(20, slice), nil
		}
		c.slices.next(t.Context())
	}
	expect := func(want string) {
		t.Helper()
		if got := show(); got != want {
			t.Errorf("offers are %q, want %q", got, want)
		}
	}

	expect("")
	_ = own.exports.Add(export)
	expect("hub:0 unknown=true")
	answer(own)
	expect("hub:1 unknown=false")
	_ = east.exports.Add(export)
	expect("hub:1 unknown=false, east:0 unknown=true")
	answer(east)
	expect("hub:1 unknown=false, east:1 unknown=false")

	_ = east.exports.Delete(export)
	expect("hub:1 unknown=false, east:1 unknown=false") // until it is judged
	east.judge(time.Now(), policy.Brake{}, time.Time{})
	_ = own.exports.Delete(export)
	expect("")
	if own.slices.table.Len() != 0 || east.slices.table.Len() != 0 {
		t.Error("slices of un-exported services are kept")
	}
}

// What stands here and was withdrawn while syncd was away is read once it is known
// to be withheld.
func TestAWithheldServiceOfBeforeARestartIsRead(t *testing.T) {
	c := NewCluster(Options{
		ID: "east", Log: slog.New(slog.DiscardHandler), Peer: &PeerParts{Judge: func() {}},
		Changed: func(mcs.ServiceKey) {}, Synced: func() {},
	})
	t.Cleanup(c.slices.queue.ShutDown)
	_ = c.slices.Replace(nil, "1")
	c.compare(func() []mcs.ServiceKey { return []mcs.ServiceKey{webKey} }, time.Time{}, time.Now())
	if _, known := c.slices.Of(webKey); known || c.slices.queue.Len() != 1 {
		t.Errorf("known %v, %d to be read", known, c.slices.queue.Len())
	}
}

// The goals are those of a clusterset of 5,000 services and 100,000 endpoints.
func TestHeapOfAnEndpoint(t *testing.T) {
	const services, slicesEach, endpoints = 500, 1, 20
	for name, c := range map[string]struct {
		exported bool
		most     float64 // bytes per endpoint
	}{"exported": {true, 250}, "that nobody exports": {false, 20}} {
		t.Run(name, func(t *testing.T) {
			cluster := NewCluster(Options{
				ID: "east", Log: slog.New(slog.DiscardHandler),
				Changed: func(mcs.ServiceKey) {}, Synced: func() {},
			})
			t.Cleanup(cluster.slices.queue.ShutDown)
			before := liveHeap()
			for s := range services {
				if c.exported {
					_ = cluster.exports.Add(&api.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("service-%d", s)}})
				}
			}
			_ = cluster.slices.Replace(nil, "1")
			for s := range services {
				for n := range slicesEach {
					_ = cluster.slices.Add(fullSlice(t, s, n, endpoints))
				}
			}
			each := float64(liveHeap()-before) / (services * slicesEach * endpoints)
			if each > c.most {
				t.Errorf("%.0f bytes, want at most %.0f", each, c.most)
			}
			t.Logf("%.1f bytes for each endpoint", each)
			runtime.KeepAlive(cluster)
		})
	}
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// fullSlice is a slice as it comes over the wire, with all that Kubernetes writes.
func fullSlice(t *testing.T, service, number, endpoints int) *discoveryv1.EndpointSlice {
	t.Helper()
	name := fmt.Sprintf("service-%d", service)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("%s-abc%d", name, number), ResourceVersion: strconv.Itoa(service*100 + number + 2),
			Labels:      map[string]string{mcs.LabelSliceService: name, mcs.LabelSliceManagedBy: "endpointslice-controller.k8s.io"},
			Annotations: map[string]string{mcs.AnnotationTriggerTime: "2026-01-02T03:04:05Z"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	for e := range endpoints {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("10.%d.%d.%d", service%250, number, e+1)},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			NodeName:   new(fmt.Sprintf("node-%d.eu-central-1.example", e)), Zone: new(fmt.Sprintf("eu-central-1%c", 'a'+e%3)),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: fmt.Sprintf("%s-5d4f8c7b9-x%d", name, e), UID: "0b9b5a2e-6d0d-4e6a-9a43-1f3b5b0f6b0a"},
		})
	}
	wire, err := slice.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	read := &discoveryv1.EndpointSlice{}
	if err := read.Unmarshal(wire); err != nil {
		t.Fatal(err)
	}
	return read
}
