package tamper_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest/tamper"
)

// patience is how long something may take that takes milliseconds.
const patience = 20 * time.Second

// bed is a namespace of one cluster, looked at through a proxy.
type bed struct {
	cluster   *kubetest.Cluster
	proxy     *tamper.Proxy
	namespace string
	direct    typedcorev1.ConfigMapInterface // as admin, beside the proxy
	through   typedcorev1.ConfigMapInterface // as admin, asking for protobuf as the product does
}

// TestProxy has a namespace and a proxy for each subtest. The objects are
// ConfigMaps, for nothing else in the cluster makes any.
func TestProxy(t *testing.T) {
	t.Parallel()
	clusters, err := kubetest.ForTest(t).StartClusters(t.Context(), kubetest.ClusterConfig{Name: "real"})
	must(t, err)
	cluster := clusters[0]
	admin, err := kubernetes.NewForConfig(cluster.Config())
	must(t, err)
	for i, c := range []struct {
		name string
		test func(*testing.T, *bed)
	}{
		{"without rules nothing is changed", testTransparent},
		{"the user stays who it is", testUser},
		{"a rule finds the object, the resource and the verb", testMatch},
		{"an object is changed in lists and in watches", testChange},
		{"a status is answered in place of a list or a watch", testRefuse},
		{"a live watch expires with an event", testExpire},
		{"what hangs goes on when the rule goes", testHang},
		{"half a list is an error", testHalf},
		{"half a streaming list ends before its mark", testHalfStream},
		{"a first page has no second", testFirstPage},
		{"a server that knows no streaming lists says so", testNoStreamingLists},
		{"events are swallowed, doubled and out of order", testEvents},
		{"objects of lists are swallowed, doubled and out of order", testItems},
		{"a disconnected watch ends, and a new one works", testDisconnect},
		{"closing does not wait for what hangs", testClose},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := &bed{cluster: cluster, proxy: tamper.ForTest(t), namespace: fmt.Sprintf("test-%d", i)}
			_, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}, metav1.CreateOptions{})
			must(t, err)
			b.direct = admin.CoreV1().ConfigMaps(b.namespace)
			b.through = b.as(t, "admin", "system:masters")
			c.test(t, b)
		})
	}
}

// as is a client of a user, through the proxy.
func (b *bed) as(t *testing.T, user string, groups ...string) typedcorev1.ConfigMapInterface {
	t.Helper()
	return b.client(t, user, groups...).ConfigMaps(b.namespace)
}

func (b *bed) client(t *testing.T, user string, groups ...string) typedcorev1.CoreV1Interface {
	t.Helper()
	kubeconfig, err := b.cluster.UserKubeconfig(user, groups...)
	must(t, err)
	kubeconfig, err = b.proxy.Kubeconfig(kubeconfig)
	must(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	must(t, err)
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c, err := kubernetes.NewForConfig(config)
	must(t, err)
	return c.CoreV1()
}

// make makes ConfigMaps, beside the proxy.
func (b *bed) make(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := b.direct.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"key": "true"},
		}, metav1.CreateOptions{})
		must(t, err)
	}
}

// list are the names that a list through the proxy has.
func (b *bed) list(ctx context.Context) (string, error) {
	list, err := b.through.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return strings.Join(names, " "), nil
}

func (b *bed) wantList(t *testing.T, want string) {
	t.Helper()
	if got, err := b.list(t.Context()); err != nil || got != want {
		t.Errorf("the list is %q, %v; want %q", got, err, want)
	}
}

// watch begins a watch through the proxy at the present state, and streaming one
// that begins with all objects.
func (b *bed) watch(t *testing.T) watch.Interface {
	t.Helper()
	list, err := b.direct.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	return b.follow(t, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
}

func (b *bed) streaming(t *testing.T) watch.Interface {
	t.Helper()
	return b.follow(t, streamingList)
}

var streamingList = metav1.ListOptions{
	AllowWatchBookmarks: true, SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
}

func (b *bed) follow(t *testing.T, options metav1.ListOptions) watch.Interface {
	t.Helper()
	w, err := b.through.Watch(t.Context(), options)
	must(t, err)
	t.Cleanup(w.Stop)
	return w
}

// next is the next event: "ADDED name", "BOOKMARK", "ERROR code" or "" at the end.
func next(t *testing.T, w watch.Interface) string {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		switch object := e.Object.(type) {
		case *corev1.ConfigMap:
			if e.Type == watch.Bookmark {
				return "BOOKMARK " + object.Annotations[metav1.InitialEventsAnnotationKey]
			}
			return string(e.Type) + " " + object.Name
		case *metav1.Status:
			return fmt.Sprint(e.Type, " ", object.Code)
		}
		if ok {
			t.Fatalf("event %+v", e)
		}
		return ""
	case <-time.After(patience):
		t.Fatal("no event")
		return ""
	}
}

func wantNext(t *testing.T, w watch.Interface, want ...string) {
	t.Helper()
	for _, w1 := range want {
		if got := next(t, w); got != w1 {
			t.Fatalf("the next event is %q, want %q", got, w1)
		}
	}
}

// wantBroken wants the end of a watch in the middle of what it said. Client-go
// tells some ends by an event of its own.
func wantBroken(t *testing.T, w watch.Interface) {
	t.Helper()
	if got := next(t, w); got != "" && got != "ERROR 500" {
		t.Fatalf("the next event is %q, want the end", got)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testTransparent(t *testing.T, b *bed) {
	b.make(t, "a", "b")
	far, err := b.through.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	near, err := b.direct.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	// The version of the list is that of the whole store, where others write too.
	if len(far.Items) != 2 || far.Items[0].String() != near.Items[0].String() || far.ResourceVersion == "" {
		t.Errorf("the list through the proxy is %v, beside it %v", far, near)
	}
	w := b.streaming(t)
	wantNext(t, w, "ADDED a", "ADDED b", "BOOKMARK true")
	// What is no list goes through, in the client's own encoding.
	c, err := b.through.Get(t.Context(), "a", metav1.GetOptions{})
	must(t, err)
	c.Data["key"] = "changed"
	_, err = b.through.Update(t.Context(), c, metav1.UpdateOptions{})
	must(t, err)
	wantNext(t, w, "MODIFIED a")
	must(t, b.through.Delete(t.Context(), "b", metav1.DeleteOptions{}))
	wantNext(t, w, "DELETED b")
}

func testUser(t *testing.T, b *bed) {
	_, err := b.as(t, "stranger").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"stranger"`) {
		t.Errorf("a list by a user without rights: %v, want that it is forbidden", err)
	}
}

func testMatch(t *testing.T, b *bed) {
	b.make(t, "a", "b")
	for _, m := range []tamper.Match{
		{Resource: "secrets"},
		{Verb: tamper.Watch},
		{Namespace: "elsewhere"},
		{Name: "c"},
	} {
		rule := b.proxy.Add(tamper.Rule{Match: m, Effect: tamper.Swallow()})
		b.wantList(t, "a b")
		if n := rule.Applied(); n != 0 {
			t.Errorf("%+v applied %d times", m, n)
		}
	}
	once := b.proxy.Add(tamper.Rule{
		Match:  tamper.Match{Resource: "configmaps", Verb: tamper.List, Namespace: b.namespace, Name: "b"},
		Effect: tamper.Swallow(), Times: 1,
	})
	b.wantList(t, "a")
	b.wantList(t, "a b")
	if n := once.Applied(); n != 1 {
		t.Errorf("a rule for once applied %d times", n)
	}
	rule := b.proxy.Add(tamper.Rule{Effect: tamper.Swallow()})
	b.wantList(t, "")
	rule.Remove()
	b.wantList(t, "a b")
}

func testChange(t *testing.T, b *bed) {
	b.make(t, "a", "b")
	forged := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, effect := range []tamper.Effect{
		tamper.Label("multicluster.kubernetes.io/source-cluster", "forged"), tamper.Namespace("forged"), tamper.Created(forged),
		tamper.AddAddress("169.254.20.5", "none"), // what a ConfigMap has no place for
		tamper.Change(func(object map[string]any) { delete(object, "data") }),
	} {
		b.proxy.Add(tamper.Rule{Match: tamper.Match{Name: "a"}, Effect: effect})
	}
	check := func(where string, object *corev1.ConfigMap) {
		t.Helper()
		if object.Labels["multicluster.kubernetes.io/source-cluster"] != "forged" || object.Namespace != "forged" ||
			!object.CreationTimestamp.Time.Equal(forged) || len(object.Data) != 0 {
			t.Errorf("%s has %v", where, object)
		}
	}
	list, err := b.through.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	check("the list", &list.Items[0])
	if other := list.Items[1]; other.Namespace != b.namespace || len(other.Labels) != 0 || len(other.Data) != 1 {
		t.Errorf("the object beside is %v", other)
	}
	w := b.watch(t)
	must(t, b.direct.Delete(t.Context(), "a", metav1.DeleteOptions{}))
	event := <-w.ResultChan()
	object, ok := event.Object.(*corev1.ConfigMap)
	if !ok || event.Type != watch.Deleted {
		t.Fatalf("event %+v", event)
	}
	check("the watch", object)
}

func testRefuse(t *testing.T, b *bed) {
	maps := b.client(t, "admin", "system:masters").RESTClient()
	for code, is := range map[int]func(error) bool{
		http.StatusUnauthorized:        apierrors.IsUnauthorized,
		http.StatusForbidden:           apierrors.IsForbidden,
		http.StatusNotFound:            apierrors.IsNotFound,
		http.StatusGone:                apierrors.IsResourceExpired,
		http.StatusTooManyRequests:     apierrors.IsTooManyRequests,
		http.StatusInternalServerError: apierrors.IsInternalError,
		http.StatusServiceUnavailable:  apierrors.IsServiceUnavailable,
	} {
		rule := b.proxy.Add(tamper.Rule{Effect: tamper.Refuse(code, 7)})
		for _, watching := range []string{"false", "true"} {
			// Client-go itself would wait and try again.
			err := maps.Get().MaxRetries(0).Namespace(b.namespace).Resource("configmaps").Param("watch", watching).Do(t.Context()).Error()
			if seconds, ok := apierrors.SuggestsClientDelay(err); !is(err) || !ok || seconds != 7 {
				t.Errorf("%d with watch=%s: %v, to be tried again after %d s", code, watching, err, seconds)
			}
		}
		rule.Remove()
	}
	b.wantList(t, "")
}

func testExpire(t *testing.T, b *bed) {
	w := b.streaming(t)
	wantNext(t, w, "BOOKMARK true")
	b.proxy.Add(tamper.Rule{Match: tamper.Match{Resource: "secrets"}, Effect: tamper.Expire()})
	b.make(t, "a")
	wantNext(t, w, "ADDED a")
	b.proxy.Add(tamper.Rule{Match: tamper.Match{Verb: tamper.Watch}, Effect: tamper.Expire(), Times: 1})
	wantNext(t, w, "ERROR 410", "")
	w = b.streaming(t)
	wantNext(t, w, "ADDED a", "BOOKMARK true")
	b.make(t, "b")
	wantNext(t, w, "ADDED b")
}

func testHang(t *testing.T, b *bed) {
	w := b.watch(t)
	rule := b.proxy.Add(tamper.Rule{Effect: tamper.Hang()})
	b.make(t, "a")
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if names, err := b.list(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a list that hangs: %q, %v; want that the time runs out", names, err)
	}
	select {
	case e := <-w.ResultChan():
		t.Errorf("event %+v of a watch that hangs", e)
	default:
	}
	listed := make(chan error, 1)
	go func() {
		names, err := b.list(t.Context())
		if names != "a" {
			err = errors.Join(err, fmt.Errorf("the list is %q", names))
		}
		listed <- err
	}()
	for deadline := time.Now().Add(patience); rule.Applied() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the rule applied %d times, want 2 lists and a watch", rule.Applied())
		}
	}
	rule.Remove()
	must(t, <-listed)
	wantNext(t, w, "ADDED a")
}

func testHalf(t *testing.T, b *bed) {
	b.make(t, "a", "b")
	rule := b.proxy.Add(tamper.Rule{Effect: tamper.Half()})
	if names, err := b.list(t.Context()); err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		t.Errorf("half a list: %q, %v; want a broken connection", names, err)
	}
	if rule.Applied() == 0 {
		t.Error("the rule did not apply")
	}
}

func testHalfStream(t *testing.T, b *bed) {
	b.make(t, "a", "b")
	rule := b.proxy.Add(tamper.Rule{Match: tamper.Match{Verb: tamper.List}, Effect: tamper.Half()})
	w := b.streaming(t)
	wantNext(t, w, "ADDED a")
	wantBroken(t, w)
	w = b.watch(t)
	rule.Remove()
	b.make(t, "c")
	wantNext(t, w, "ADDED c")
}

func testFirstPage(t *testing.T, b *bed) {
	b.make(t, "a", "b", "c", "d")
	b.proxy.Add(tamper.Rule{Effect: tamper.FirstPage()})
	list, err := b.through.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != 2 || list.Continue == "" || *list.RemainingItemCount != 2 {
		t.Errorf("the page has %d objects, continue token %q", len(list.Items), list.Continue)
	}
	if _, err := b.through.List(t.Context(), metav1.ListOptions{Continue: list.Continue}); !apierrors.IsInternalError(err) {
		t.Errorf("the rest: %v, want an internal error", err)
	}
	if _, err := b.through.Watch(t.Context(), streamingList); !apierrors.IsInvalid(err) {
		t.Errorf("a streaming list: %v, want that it is invalid", err)
	}
}

func testNoStreamingLists(t *testing.T, b *bed) {
	b.make(t, "a")
	b.proxy.Add(tamper.Rule{Effect: tamper.NoStreamingLists()})
	if _, err := b.through.Watch(t.Context(), streamingList); !apierrors.IsInvalid(err) {
		t.Errorf("a streaming list: %v, want that it is invalid", err)
	}
	b.wantList(t, "a")
	w := b.watch(t)
	b.make(t, "b")
	wantNext(t, w, "ADDED b")
}

func testEvents(t *testing.T, b *bed) {
	w := b.watch(t)
	for name, effect := range map[string]tamper.Effect{
		"lost": tamper.Swallow(), "twice": tamper.Duplicate(), "late": tamper.Reorder(),
	} {
		b.proxy.Add(tamper.Rule{Match: tamper.Match{Name: name, Verb: tamper.Watch}, Effect: effect})
	}
	b.make(t, "a", "lost", "b", "twice", "late", "c", "d")
	wantNext(t, w, "ADDED a", "ADDED b", "ADDED twice", "ADDED twice", "ADDED c", "ADDED late", "ADDED d")
	b.wantList(t, "a b c d late lost twice")
}

func testItems(t *testing.T, b *bed) {
	b.make(t, "a", "b", "c", "d")
	for name, effect := range map[string]tamper.Effect{
		"a": tamper.Reorder(), "b": tamper.Duplicate(), "c": tamper.Swallow(), "d": tamper.Reorder(),
	} {
		b.proxy.Add(tamper.Rule{Match: tamper.Match{Name: name, Verb: tamper.List}, Effect: effect})
	}
	b.wantList(t, "b b a d")
}

func testDisconnect(t *testing.T, b *bed) {
	w := b.watch(t)
	b.proxy.Disconnect(tamper.Match{Resource: "secrets"})
	b.make(t, "a")
	wantNext(t, w, "ADDED a")
	b.proxy.Disconnect(tamper.Match{Resource: "configmaps"})
	wantBroken(t, w)
	w = b.watch(t)
	b.make(t, "b")
	wantNext(t, w, "ADDED b")
}

func testClose(t *testing.T, b *bed) {
	w := b.watch(t)
	b.proxy.Add(tamper.Rule{Effect: tamper.Hang()})
	closed := make(chan struct{})
	go func() { defer close(closed); b.proxy.Close() }()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("it waits")
	}
	wantBroken(t, w)
}
