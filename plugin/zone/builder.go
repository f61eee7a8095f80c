package zone

import (
	"cmp"
	"maps"
	"slices"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// Builder keeps the inputs and publishes a new [Zone] when they change. Only
// services that changed since the last [Builder.Publish] are built again. It
// is not safe for concurrent use; the zones it returns are.
type Builder struct {
	opts       Options
	imports    map[mcs.ServiceKey]Import
	slices     map[sliceKey]*Slice
	byService  map[mcs.ServiceKey][]*Slice // by name
	namespaces map[string]int              // imports per namespace
	endpoints  int                         // over all slices
	dirty      map[mcs.ServiceKey]struct{}
	current    *Zone  // nil until the first Publish
	resumed    uint32 // no serial is this one or below
}

type sliceKey struct{ namespace, name string }

// NewBuilder returns a Builder without inputs.
func NewBuilder(opts Options) *Builder {
	return &Builder{
		opts:       opts,
		imports:    map[mcs.ServiceKey]Import{},
		slices:     map[sliceKey]*Slice{},
		byService:  map[mcs.ServiceKey][]*Slice{},
		namespaces: map[string]int{},
		dirty:      map[mcs.ServiceKey]struct{}{},
	}
}

// Imports is the number of imports kept.
func (b *Builder) Imports() int { return len(b.imports) }

// Endpoints is the number of ready endpoints kept, over all slices.
func (b *Builder) Endpoints() int { return b.endpoints }

// Inputs are all imports and slices kept, in no order. They share their lists
// with the Builder: read them only.
func (b *Builder) Inputs() ([]Import, []Slice) {
	imports := slices.Collect(maps.Values(b.imports))
	all := make([]Slice, 0, len(b.slices))
	for _, s := range b.slices {
		all = append(all, *s)
	}
	return imports, all
}

// Resume makes the serial of the first zone greater than that of a zone which
// clients may have seen before.
func (b *Builder) Resume(serial uint32) { b.resumed = serial }

// Pending reports whether Publish would have anything to build.
func (b *Builder) Pending() bool { return b.current == nil || len(b.dirty) > 0 }

// SetImport adds or replaces an import.
func (b *Builder) SetImport(imp Import) {
	old, known := b.imports[imp.Key]
	if known && old.equal(imp) {
		return
	}
	if !known {
		b.namespaces[imp.Key.Namespace]++
	}
	b.imports[imp.Key] = imp
	b.dirty[imp.Key] = struct{}{}
}

// DeleteImport forgets an import; an unknown one is no matter.
func (b *Builder) DeleteImport(key mcs.ServiceKey) {
	if _, known := b.imports[key]; !known {
		return
	}
	delete(b.imports, key)
	if b.namespaces[key.Namespace]--; b.namespaces[key.Namespace] == 0 {
		delete(b.namespaces, key.Namespace)
	}
	b.dirty[key] = struct{}{}
}

// ReplaceImports makes the imports of a namespace exactly these; an empty
// namespace stands for all of them.
func (b *Builder) ReplaceImports(namespace string, imports []Import) {
	gone := map[mcs.ServiceKey]struct{}{}
	for key := range b.imports {
		if namespace == "" || key.Namespace == namespace {
			gone[key] = struct{}{}
		}
	}
	for _, imp := range imports {
		delete(gone, imp.Key)
		b.SetImport(imp)
	}
	for key := range gone {
		b.DeleteImport(key)
	}
}

// SetSlice adds or replaces a slice.
func (b *Builder) SetSlice(s Slice) {
	old := b.slices[s.key()]
	if old != nil && old.equal(s) {
		return
	}
	if old != nil {
		b.unlink(old)
	}
	b.slices[s.key()] = &s
	list := b.byService[s.Service]
	i, _ := slices.BinarySearchFunc(list, s.Name, compareSliceName)
	b.byService[s.Service] = slices.Insert(list, i, &s)
	b.endpoints += len(s.Endpoints)
	b.slicesChanged(s.Service)
}

// DeleteSlice forgets a slice; an unknown one is no matter.
func (b *Builder) DeleteSlice(namespace, name string) {
	key := sliceKey{namespace, name}
	if old := b.slices[key]; old != nil {
		b.unlink(old)
		delete(b.slices, key)
	}
}

// ReplaceSlices makes the slices of a namespace exactly these; an empty
// namespace stands for all of them.
func (b *Builder) ReplaceSlices(namespace string, in []Slice) {
	gone := map[sliceKey]struct{}{}
	for key := range b.slices {
		if namespace == "" || key.namespace == namespace {
			gone[key] = struct{}{}
		}
	}
	for _, s := range in {
		delete(gone, s.key())
		b.SetSlice(s)
	}
	for key := range gone {
		b.DeleteSlice(key.namespace, key.name)
	}
}

// unlink takes a slice out of its service.
func (b *Builder) unlink(s *Slice) {
	list := b.byService[s.Service]
	if i, ok := slices.BinarySearchFunc(list, s.Name, compareSliceName); ok {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		delete(b.byService, s.Service)
	} else {
		b.byService[s.Service] = list
	}
	b.endpoints -= len(s.Endpoints)
	b.slicesChanged(s.Service)
}

// slicesChanged marks a service whose answers depend on its slices. Most do not:
// a ClusterSetIP import answers with its own addresses.
func (b *Builder) slicesChanged(key mcs.ServiceKey) {
	if imp, known := b.imports[key]; known && (imp.Headless || b.opts.HideEmpty) {
		b.dirty[key] = struct{}{}
	}
}

func compareSliceName(s *Slice, name string) int { return cmp.Compare(s.Name, name) }

// Publish returns the zone of the inputs as they are now, and what had to be
// left out of the services that were built. A zone without a visible change
// against the last one is that one. A changed zone has the serial
// max(last + 1, now), where now is in seconds since 1970.
func (b *Builder) Publish(now int64) (*Zone, []Problem) {
	d := draft{now: now, before: b.current, resumed: b.resumed}
	if b.current == nil {
		d.start(b.opts)
	}
	var problems []Problem
	for key := range b.dirty {
		s, p := b.build(key)
		problems = append(problems, p...)
		d.setService(key, s)
		d.setNamespace(key.Namespace, b.namespaces[key.Namespace] > 0)
	}
	clear(b.dirty)
	slices.SortFunc(problems, func(x, y Problem) int {
		return cmp.Or(x.Service.Compare(y.Service), cmp.Compare(x.Detail, y.Detail))
	})
	b.current = d.finish()
	return b.current, problems
}

func (b *Builder) build(key mcs.ServiceKey) (*service, []Problem) {
	imp, ok := b.imports[key]
	switch {
	case !ok:
		return nil, nil
	case imp.Headless:
		return buildHeadless(key, b.byService[key], &b.opts)
	default:
		return buildClusterSetIP(imp, b.byService[key], &b.opts)
	}
}

// draft is a zone in the making: a copy of the one before, made when the first
// difference turns up, whose shards are copied when they are written to.
type draft struct {
	now     int64
	resumed uint32
	before  *Zone
	next    *Zone
	owned   [shardCount]bool // shards that next does not share with before
	reverse reverseEdit
}

// start makes the first zone of a Builder.
func (d *draft) start(opts Options) {
	d.next = &Zone{nameservers: distinct(slices.Clone(opts.Nameservers)), local: opts.Local, origins: opts.Origins}
	for i := range d.next.shards {
		d.next.shards[i] = &shard{services: map[string]*service{}, namespaces: map[string]struct{}{}}
		d.owned[i] = true
	}
}

func (d *draft) current() *Zone {
	if d.next != nil {
		return d.next
	}
	return d.before
}

// shard returns the shard of a key for writing.
func (d *draft) shard(key string) *shard {
	if d.next == nil {
		next := *d.before
		d.next = &next
	}
	i := shardOf(key)
	if !d.owned[i] {
		old := d.next.shards[i]
		d.next.shards[i] = &shard{services: maps.Clone(old.services), namespaces: maps.Clone(old.namespaces)}
		d.owned[i] = true
	}
	return d.next.shards[i]
}

func (d *draft) setService(key mcs.ServiceKey, s *service) {
	name := key.Name + "." + key.Namespace
	before := d.current().service(name)
	if before.equal(s) {
		return
	}
	d.reverse.change(name, before, s)
	if s == nil {
		delete(d.shard(name).services, name)
	} else {
		d.shard(name).services[name] = s
	}
}

func (d *draft) setNamespace(name string, holdsImport bool) {
	switch {
	case d.current().hasNamespace(name) == holdsImport:
	case holdsImport:
		d.shard(name).namespaces[name] = struct{}{}
	default:
		delete(d.shard(name).namespaces, name)
	}
}

// finish returns the new zone, or the one before when there is no difference.
func (d *draft) finish() *Zone {
	if d.next == nil {
		return d.before
	}
	d.next.reverse = d.next.reverse.edited(&d.reverse)
	serial := uint32(d.now) //nolint:gosec // serials wrap (RFC 1982)
	last := d.resumed
	if d.before != nil {
		last = d.before.serial
	}
	d.next.serial = max(last+1, serial)
	return d.next
}
