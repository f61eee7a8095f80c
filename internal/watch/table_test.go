package watch

import (
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// recorder is a table of slices, by service, that remembers whom it told.
type recorder struct {
	*Table[string]
	told   []string
	synced int
}

func newRecorder() *recorder {
	r := &recorder{}
	r.Table = NewTable(TableOptions[string]{
		Convert: func(object any) (mcs.ServiceKey, string, bool) {
			s, ok := object.(*discoveryv1.EndpointSlice)
			if !ok {
				return mcs.ServiceKey{}, "", false
			}
			service := s.Labels["service"]
			return mcs.ServiceKey{Namespace: s.Namespace, Name: service}, s.Name + "@" + s.Labels["say"], service != ""
		},
		Equal:   func(a, b string) bool { return a == b },
		Changed: func(k mcs.ServiceKey) { r.told = append(r.told, k.Name) },
		Synced:  func() { r.synced++ },
	})
	return r
}

// heard are the services told of since the last call, sorted.
func (r *recorder) heard() string {
	slices.Sort(r.told)
	defer func() { r.told = nil }()
	return strings.Join(r.told, " ")
}

func (r *recorder) rows(service string) string {
	return strings.Join(r.Of(mcs.ServiceKey{Namespace: "shop", Name: service}), " ")
}

func object(name, service, say, version string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, ResourceVersion: version,
		Labels: map[string]string{"service": service, "say": say},
	}}
}

func (r *recorder) expect(t *testing.T, heard string, rows map[string]string) {
	t.Helper()
	if got := r.heard(); got != heard {
		t.Errorf("told of %q, want %q", got, heard)
	}
	for service, want := range rows {
		if got := r.rows(service); got != want {
			t.Errorf("rows of %s are %q, want %q", service, got, want)
		}
	}
}

func TestTableFollowsObjectsByTheirOwnName(t *testing.T) {
	r := newRecorder()
	if r.HasSynced() {
		t.Fatal("synced before the first list")
	}
	_ = r.Replace([]any{object("a-1", "a", "x", "1"), object("b-1", "b", "x", "2"), object("none", "", "x", "3")}, "5")
	r.expect(t, "a b", map[string]string{"a": "a-1@x", "b": "b-1@x"})
	if !r.HasSynced() || r.synced != 1 {
		t.Errorf("synced %v, told %d times", r.HasSynced(), r.synced)
	}

	_ = r.Add(object("a-2", "a", "x", "6"))
	r.expect(t, "a", map[string]string{"a": "a-1@x a-2@x"})

	_ = r.Update(object("a-2", "a", "x", "7"))
	r.expect(t, "", map[string]string{"a": "a-1@x a-2@x"}) // nothing that is kept has changed

	_ = r.Update(object("a-2", "b", "x", "8"))
	r.expect(t, "a b", map[string]string{"a": "a-1@x", "b": "a-2@x b-1@x"}) // it moved to another service

	_ = r.Update(object("a-2", "", "x", "9"))
	r.expect(t, "b", map[string]string{"b": "b-1@x"}) // it belongs to none any more

	_ = r.Delete(object("a-1", "a", "x", "10"))
	r.expect(t, "a", map[string]string{"a": ""})

	_ = r.Delete(object("a-1", "a", "x", "10"))
	r.expect(t, "", map[string]string{"a": ""})
}

func TestANewListTellsOfWhatChangedMeanwhile(t *testing.T) {
	r := newRecorder()
	_ = r.Replace([]any{object("a-1", "a", "x", "1"), object("b-1", "b", "x", "2"), object("c-1", "c", "x", "2"), object("d-1", "d", "x", "2")}, "5")
	r.heard()
	_ = r.Replace([]any{object("a-1", "a", "x", "1"), object("b-1", "b", "y", "6"), object("d-1", "e", "x", "7"), object("f-1", "f", "x", "8")}, "9")
	r.expect(t, "b c d e f", map[string]string{"a": "a-1@x", "b": "b-1@y", "c": "", "d": "", "e": "d-1@x", "f": "f-1@x"})
	if r.synced != 1 {
		t.Errorf("told of the first list %d times", r.synced)
	}
	if r.Len() != 4 || len(r.Keys()) != 4 {
		t.Errorf("%d rows of %d services", r.Len(), len(r.Keys()))
	}
}

func TestAWriteOfOurOwnIsNotUndoneByAWatchThatLags(t *testing.T) {
	r := newRecorder()
	_ = r.Replace([]any{object("a-1", "a", "x", "5")}, "5")
	r.heard()
	r.Put(object("a-1", "a", "y", "9"))
	r.expect(t, "", map[string]string{"a": "a-1@y"})

	_ = r.Update(object("a-1", "a", "late", "7"))
	_ = r.Delete(object("a-1", "a", "late", "8"))
	r.Put(object("a-1", "a", "late", "6"))
	_ = r.Replace([]any{object("a-1", "a", "late", "7")}, "8")
	r.expect(t, "", map[string]string{"a": "a-1@y"})

	_ = r.Update(object("a-1", "a", "y", "9"))
	r.expect(t, "", map[string]string{"a": "a-1@y"}) // the echo of our write
	_ = r.Update(object("a-1", "a", "z", "10"))
	r.expect(t, "a", map[string]string{"a": "a-1@z"})

	r.Put(object("a-2", "a", "x", "11"))
	r.Forget(object("a-1", "a", "z", "10"))
	r.expect(t, "", map[string]string{"a": "a-2@x"})
	_ = r.Delete(object("a-2", "a", "x", "12"))
	r.expect(t, "a", map[string]string{"a": ""})
}

// A peer's API server that was restored from a backup counts from lower numbers
// again, and is right all the same.
func TestAWatchMayGoBackWhereWeWroteNothing(t *testing.T) {
	r := newRecorder()
	_ = r.Replace([]any{object("a-1", "a", "x", "900")}, "900")
	_ = r.Replace([]any{object("a-1", "a", "y", "7")}, "8")
	_ = r.Update(object("a-1", "a", "z", "9"))
	if got := r.rows("a"); got != "a-1@z" {
		t.Errorf("rows are %q", got)
	}
}

func TestTeeHandsEverythingToAll(t *testing.T) {
	a, b := newRecorder(), newRecorder()
	tee := Tee{a, b}
	_ = tee.Replace([]any{object("a-1", "a", "x", "1")}, "1")
	_ = tee.Add(object("a-2", "a", "x", "2"))
	_ = tee.Update(object("a-2", "a", "y", "3"))
	_ = tee.Delete(object("a-1", "a", "x", "4"))
	for _, r := range []*recorder{a, b} {
		r.expect(t, strings.TrimSpace(strings.Repeat("a ", 4)), map[string]string{"a": "a-2@y"})
	}
}

func TestWhatIsReadBesideTheWatchIsMergedByVersion(t *testing.T) {
	r := newRecorder()
	_ = r.Replace([]any{object("a-1", "a", "x", "5")}, "5")
	r.heard()
	r.Merge(object("a-1", "b", "y", "9"))
	r.expect(t, "a b", map[string]string{"a": "", "b": "a-1@y"})
	_ = r.Update(object("a-1", "a", "late", "7"))
	_ = r.Delete(object("a-1", "a", "late", "8"))
	r.expect(t, "", map[string]string{"b": "a-1@y"})

	r.Unpin()
	_ = r.Replace([]any{object("a-1", "b", "z", "3"), object("b-2", "b", "x", "2"), object("c-1", "c", "x", "2")}, "4")
	r.expect(t, "b c", map[string]string{"b": "a-1@z b-2@x"})

	r.Clear(mcs.ServiceKey{Namespace: "shop", Name: "b"})
	r.expect(t, "", map[string]string{"b": "", "c": "c-1@x"})
	if r.Len() != 1 || len(r.Keys()) != 1 {
		t.Errorf("%d rows of %d services", r.Len(), len(r.Keys()))
	}
}
