// Package apitest is a very small API server for unit tests: it lists and
// watches ServiceImports and EndpointSlices, has one Namespace, kube-system, and
// fails when told to. What a real API server does is tested with real ones.
package apitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// Server serves the two resources. It is safe for concurrent use.
type Server struct {
	http *httptest.Server

	mu       sync.Mutex
	version  int
	objects  map[string]object   // by resource/namespace/name
	failures map[string]int      // HTTP status by resource
	watchers map[chan event]bool // value unused
	requests map[string]int      // by "verb resource"
	uid      string              // of kube-system
}

type object = map[string]any

type event struct {
	Type   string `json:"type"`
	Object object `json:"object"`

	resource, namespace string
}

var kinds = map[string]string{"ServiceImport": "serviceimports", "EndpointSlice": "endpointslices"}

var apiVersions = map[string]string{
	"ServiceImport": "multicluster.x-k8s.io/v1beta1",
	"EndpointSlice": "discovery.k8s.io/v1",
}

func kindOf(resource string) string {
	for kind, plural := range kinds {
		if plural == resource {
			return kind
		}
	}
	return ""
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		objects: map[string]object{}, failures: map[string]int{},
		watchers: map[chan event]bool{}, requests: map[string]int{}, uid: "test-cluster",
	}
	s.http = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CutWatches()
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// Config is that of a client.
func (s *Server) Config() *rest.Config { return &rest.Config{Host: s.http.URL} }

// Kubeconfig writes one for a client and returns its path.
func (s *Server) Kubeconfig(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: test,
contexts: [{name: test, context: {cluster: test, user: test}}],
clusters: [{name: test, cluster: {server: %q}}], users: [{name: test, user: {}}]}`, s.http.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Apply creates or replaces the objects of a multi-document YAML.
func (s *Server) Apply(t testing.TB, text string) {
	t.Helper()
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatalf("apply: %v", err)
		}
		s.change(o, "MODIFIED")
	}
}

// Delete removes an object; kind as in YAML.
func (s *Server) Delete(kind, namespace, name string) {
	s.change(object{"kind": kind, "metadata": object{"namespace": namespace, "name": name}}, "DELETED")
}

func (s *Server) change(o object, typ string) {
	meta, _ := o["metadata"].(object)
	kind, _ := o["kind"].(string)
	resource := kinds[kind]
	namespace, _ := meta["namespace"].(string)
	key := fmt.Sprintf("%s/%s/%s", resource, namespace, meta["name"])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	meta["resourceVersion"] = strconv.Itoa(s.version)
	if _, known := s.objects[key]; !known && typ == "MODIFIED" {
		typ = "ADDED"
	}
	if typ == "DELETED" {
		delete(s.objects, key)
	} else {
		s.objects[key] = o
	}
	for w := range s.watchers {
		w <- event{Type: typ, Object: o, resource: resource, namespace: namespace}
	}
}

// SetUID makes it another cluster: kube-system has this UID, "test-cluster" at first.
func (s *Server) SetUID(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uid = uid
}

// Fail makes requests for a resource, "serviceimports", "endpointslices" or
// "namespaces", fail with an HTTP status; 0 makes them work again.
func (s *Server) Fail(resource string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures[resource] = status
}

// CutWatches ends all watches.
func (s *Server) CutWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		close(w)
	}
	clear(s.watchers)
}

// Requests is the number of requests so far; verb is "list" or "watch".
func (s *Server) Requests(verb, resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[verb+" "+resource]
}

// Watches is the number of open watches.
func (s *Server) Watches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watchers)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource, namespace := path[len(path)-1], ""
	if i := slices.Index(path, "namespaces"); i >= 0 {
		namespace = path[i+1]
	}
	w.Header().Set("Content-Type", "application/json")
	verb := "list"
	if namespace == resource {
		verb, resource = "get", "namespaces"
	}
	if r.URL.Query().Get("watch") != "" {
		verb = "watch"
	}
	s.mu.Lock()
	s.requests[verb+" "+resource]++
	status, uid := s.failures[resource], s.uid
	s.mu.Unlock()
	switch {
	case status != 0:
		reasons := map[int]string{http.StatusForbidden: "Forbidden", http.StatusNotFound: "NotFound", http.StatusUnauthorized: "Unauthorized"}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(object{
			"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reasons[status],
			"message": fmt.Sprintf("cannot %s resource %q: by order of the test", verb, resource),
		})
	case verb == "get":
		_ = json.NewEncoder(w).Encode(object{
			"kind": "Namespace", "apiVersion": "v1", "metadata": object{"name": namespace, "uid": uid},
		})
	case verb == "watch":
		s.watch(w, r, resource, namespace)
	default:
		s.mu.Lock()
		kind := kindOf(resource)
		list := object{
			"kind": kind + "List", "apiVersion": apiVersions[kind],
			"metadata": object{"resourceVersion": strconv.Itoa(s.version)}, "items": s.selected(resource, namespace),
		}
		text, _ := json.Marshal(list)
		s.mu.Unlock()
		_, _ = w.Write(text)
	}
}

func (s *Server) selected(resource, namespace string) []object {
	list := []object{}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if f := strings.Split(key, "/"); f[0] == resource && (namespace == "" || f[1] == namespace) {
			list = append(list, s.objects[key])
		}
	}
	return list
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, resource, namespace string) {
	events := make(chan event, 1000)
	enc := json.NewEncoder(w)
	s.mu.Lock()
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, o := range s.selected(resource, namespace) {
			_ = enc.Encode(event{Type: "ADDED", Object: o})
		}
		kind := kindOf(resource)
		bookmark := object{"kind": kind, "apiVersion": apiVersions[kind], "metadata": object{
			"resourceVersion": strconv.Itoa(s.version),
			"annotations":     object{"k8s.io/initial-events-end": "true"},
		}}
		_ = enc.Encode(event{Type: "BOOKMARK", Object: bookmark})
	}
	s.watchers[events] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, events)
	}()
	flusher, _ := w.(http.Flusher)
	for {
		flusher.Flush()
		select {
		case <-r.Context().Done():
			return
		case e, ok := <-events:
			if !ok {
				return
			}
			if e.resource == resource && (namespace == "" || namespace == e.namespace) {
				_ = enc.Encode(e)
			}
		}
	}
}
