package watch

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// Table holds the objects of one resource, shrunk to T, by the service that each
// belongs to. It is the store of a Resource and safe for concurrent use.
//
// An object is known by its own name, never by its service alone: endpoints move
// between slices, and a slice can move between services.
type Table[T any] struct {
	options TableOptions[T]

	mu        sync.RWMutex // guards the fields below
	rows      map[cache.ObjectName]row[T]
	byService map[mcs.ServiceKey][]cache.ObjectName // in order, never empty

	synced     chan struct{}
	syncedOnce sync.Once
}

// TableOptions say what a Table keeps and whom it tells.
type TableOptions[T any] struct {
	// Convert shrinks an object and names its service; keep is false for an
	// object that does not belong into this table.
	Convert func(object any) (key mcs.ServiceKey, value T, keep bool)
	// Equal reports that a change is none; nil means that every change counts.
	Equal func(a, b T) bool
	// Changed is told of each service whose rows changed, and Synced once, when
	// the first list is in. Both are called without locks held; nil is allowed.
	Changed func(mcs.ServiceKey)
	Synced  func()
}

type row[T any] struct {
	key   mcs.ServiceKey
	value T
	// version is the resourceVersion of a row that did not come by the watch, ""
	// otherwise. Such a row does not go back to what a watch that lags behind says.
	version string
}

// NewTable makes an empty table.
func NewTable[T any](options TableOptions[T]) *Table[T] {
	if options.Equal == nil {
		options.Equal = func(T, T) bool { return false }
	}
	if options.Changed == nil {
		options.Changed = func(mcs.ServiceKey) {}
	}
	if options.Synced == nil {
		options.Synced = func() {}
	}
	return &Table[T]{
		options:   options,
		rows:      map[cache.ObjectName]row[T]{},
		byService: map[mcs.ServiceKey][]cache.ObjectName{},
		synced:    make(chan struct{}),
	}
}

// HasSynced reports whether the first list is in.
func (t *Table[T]) HasSynced() bool {
	select {
	case <-t.synced:
		return true
	default:
		return false
	}
}

// Of are the rows of a service, in the order of their objects' names.
func (t *Table[T]) Of(key mcs.ServiceKey) []T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	names := t.byService[key]
	if len(names) == 0 {
		return nil
	}
	values := make([]T, 0, len(names))
	for _, name := range names {
		values = append(values, t.rows[name].value)
	}
	return values
}

// One is the first row of a service, for resources that have at most one.
func (t *Table[T]) One(key mcs.ServiceKey) (value T, ok bool) {
	if values := t.Of(key); len(values) > 0 {
		return values[0], true
	}
	return value, false
}

// Keys are the services that have rows, in no order.
func (t *Table[T]) Keys() []mcs.ServiceKey {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Keys(t.byService))
}

// Len is the number of rows.
func (t *Table[T]) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.rows)
}

// Put takes in the answer to a write of our own, ahead of the watch.
func (t *Table[T]) Put(object any) {
	name, version, ok := identify(object)
	if !ok {
		return
	}
	key, value, keep := t.options.Convert(object)
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, had := t.rows[name]; had && Newer(old.version, version) {
		return
	}
	if keep {
		t.set(name, row[T]{key: key, value: value, version: version})
	} else {
		t.drop(name)
	}
}

// Forget takes in that an object is gone, ahead of the watch.
func (t *Table[T]) Forget(object any) {
	name, _, ok := identify(object)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(name)
}

// Merge takes in an object that was read beside the watch, which may be ahead of
// it or behind.
func (t *Table[T]) Merge(object any) {
	if name, version, ok := identify(object); ok {
		t.take(object, name, version, version)
	}
}

// Clear drops the rows of a service, without a word to Changed.
func (t *Table[T]) Clear(key mcs.ServiceKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range t.byService[key] {
		delete(t.rows, name)
	}
	delete(t.byService, key)
}

// Unpin lets the next list and the watch decide on every row, whatever is known
// beside them: a server that was restored counts from lower versions again.
func (t *Table[T]) Unpin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, r := range t.rows {
		if r.version != "" {
			r.version = ""
			t.rows[name] = r
		}
	}
}

// Add, Update, Delete, Replace and Resync are what a Reflector calls.
func (t *Table[T]) Add(object any) error { return t.Update(object) }

// Update takes in an object as the watch has it.
func (t *Table[T]) Update(object any) error {
	if name, version, ok := identify(object); ok {
		t.take(object, name, version, "")
	}
	return nil
}

// take takes in an object of a version, and keeps pin as that of its row.
func (t *Table[T]) take(object any, name cache.ObjectName, version, pin string) {
	key, value, keep := t.options.Convert(object)
	if !keep {
		t.tell(t.remove(name, version))
		return
	}
	t.mu.Lock()
	old, had := t.rows[name]
	if had && Newer(old.version, version) {
		t.mu.Unlock()
		return
	}
	t.set(name, row[T]{key: key, value: value, version: pin})
	t.mu.Unlock()

	moved := had && old.key != key
	if moved {
		t.options.Changed(old.key)
	}
	if !had || moved || !t.options.Equal(old.value, value) {
		t.options.Changed(key)
	}
}

// Delete takes in that the watch saw an object go.
func (t *Table[T]) Delete(object any) error {
	if name, version, ok := identify(object); ok {
		t.tell(t.remove(name, version))
	}
	return nil
}

// Replace takes in a whole list at once; it is the first list, or a new one
// after a watch could not go on.
func (t *Table[T]) Replace(objects []any, listVersion string) error {
	rows := make(map[cache.ObjectName]row[T], len(objects))
	for _, object := range objects {
		name, _, ok := identify(object)
		if !ok {
			continue
		}
		if key, value, keep := t.options.Convert(object); keep {
			rows[name] = row[T]{key: key, value: value}
		}
	}
	changed := map[mcs.ServiceKey]struct{}{}
	t.mu.Lock()
	for name, old := range t.rows {
		if Newer(old.version, listVersion) {
			rows[name] = old // written by us after this list was made
			continue
		}
		now, stays := rows[name]
		if !stays || now.key != old.key || !t.options.Equal(old.value, now.value) {
			changed[old.key] = struct{}{}
		}
	}
	for name, now := range rows {
		if old, had := t.rows[name]; !had || old.key != now.key {
			changed[now.key] = struct{}{}
		}
	}
	t.rows = rows
	t.byService = make(map[mcs.ServiceKey][]cache.ObjectName, len(t.byService))
	for name, r := range rows {
		t.index(r.key, name)
	}
	t.mu.Unlock()

	t.syncedOnce.Do(func() {
		close(t.synced)
		t.options.Synced()
	})
	for key := range changed {
		t.options.Changed(key)
	}
	return nil
}

// Resync does nothing: the rows are the truth as far as it is known.
func (t *Table[T]) Resync() error { return nil }

// remove drops a row at the word of a watch event of the given version and
// returns its service.
func (t *Table[T]) remove(name cache.ObjectName, version string) (key mcs.ServiceKey, had bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, had := t.rows[name]
	if !had || Newer(old.version, version) {
		return mcs.ServiceKey{}, false
	}
	t.drop(name)
	return old.key, true
}

func (t *Table[T]) tell(key mcs.ServiceKey, changed bool) {
	if changed {
		t.options.Changed(key)
	}
}

// set, drop and index are called with the lock held.
func (t *Table[T]) set(name cache.ObjectName, r row[T]) {
	t.drop(name)
	t.rows[name] = r
	t.index(r.key, name)
}

func (t *Table[T]) drop(name cache.ObjectName) {
	old, had := t.rows[name]
	if !had {
		return
	}
	delete(t.rows, name)
	names := t.byService[old.key]
	if len(names) == 1 {
		delete(t.byService, old.key)
	} else if at, found := slices.BinarySearchFunc(names, name, compareNames); found {
		t.byService[old.key] = slices.Delete(names, at, at+1)
	}
}

func (t *Table[T]) index(key mcs.ServiceKey, name cache.ObjectName) {
	names := t.byService[key]
	if at, found := slices.BinarySearchFunc(names, name, compareNames); !found {
		t.byService[key] = slices.Insert(names, at, name)
	}
}

func compareNames(a, b cache.ObjectName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func identify(object any) (name cache.ObjectName, version string, ok bool) {
	m, err := meta.Accessor(object)
	if err != nil {
		return cache.ObjectName{}, "", false // not an object of the API: nothing to keep
	}
	return cache.NewObjectName(m.GetNamespace(), m.GetName()), m.GetResourceVersion(), true
}

// Newer reports whether resourceVersion a is newer than b. It is false when one of
// them is "", or no version.
func Newer(a, b string) bool {
	if a == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// Tee is a store that hands everything to several stores in order: one watch,
// several readers.
type Tee []cache.ReflectorStore

// Add, Update, Delete, Replace and Resync are what a Reflector calls.
func (t Tee) Add(object any) error {
	return t.each(func(s cache.ReflectorStore) error { return s.Add(object) })
}

// Update hands an object on.
func (t Tee) Update(object any) error {
	return t.each(func(s cache.ReflectorStore) error { return s.Update(object) })
}

// Delete hands a deletion on.
func (t Tee) Delete(object any) error {
	return t.each(func(s cache.ReflectorStore) error { return s.Delete(object) })
}

// Replace hands a list on.
func (t Tee) Replace(objects []any, version string) error {
	return t.each(func(s cache.ReflectorStore) error { return s.Replace(objects, version) })
}

// Resync does nothing.
func (t Tee) Resync() error { return nil }

func (t Tee) each(call func(cache.ReflectorStore) error) error {
	for _, s := range t {
		if err := call(s); err != nil {
			return err
		}
	}
	return nil
}
