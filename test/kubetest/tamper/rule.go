package tamper

import "slices"

// Verb is what a client does with a whole resource.
type Verb string

// The verbs that rules know; "" in a Match is both.
const (
	// List is a plain list, or the first part of a streaming one.
	List Verb = "list"
	// Watch is what changes bring after that.
	Watch Verb = "watch"
)

// Match says what a rule is about; an empty field is about all.
type Match struct {
	// Resource is the plural without its group: "endpointslices".
	Resource string
	Verb     Verb
	// Namespace and Name are those of an object as the server has it. Effects on
	// whole requests do not look at them.
	Namespace, Name string
}

// Rule is what happens to what.
type Rule struct {
	Match
	Effect Effect
	// Times is how often the rule applies before it ends by itself; 0 is without end. A Hang
	// always lasts until it is removed.
	Times int
}

// Added is a rule at work.
type Added struct {
	Rule
	proxy   *Proxy
	applied int // guarded by proxy.mu
}

// Add puts a rule to work, after those that are there. Live watches obey at
// once, but what they have brought already stays as it is: Disconnect and Expire
// make clients list anew.
func (p *Proxy) Add(rule Rule) *Added {
	p.mu.Lock()
	defer p.mu.Unlock()
	added := &Added{Rule: rule, proxy: p}
	p.rules = append(p.rules, added)
	p.announce()
	return added
}

// Remove ends the rule. Requests that hang because of it go on.
func (a *Added) Remove() {
	a.proxy.mu.Lock()
	defer a.proxy.mu.Unlock()
	a.proxy.drop(a)
}

// Applied is how many objects, events or requests the rule had its effect on.
func (a *Added) Applied() int {
	a.proxy.mu.Lock()
	defer a.proxy.mu.Unlock()
	return a.applied
}

// Clear removes all rules.
func (p *Proxy) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
	p.announce()
}

// drop and announce are called with the lock held.
func (p *Proxy) drop(a *Added) {
	p.rules = slices.DeleteFunc(slices.Clone(p.rules), func(other *Added) bool { return other == a })
	p.announce()
}

// announce wakes the requests that hang and the watches that are live.
func (p *Proxy) announce() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// snapshot is the rules now, and what is closed when they change.
func (p *Proxy) snapshot() (rules []*Added, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules, p.changed
}

// use counts an application of a rule; false means that the rule has ended.
func (a *Added) use() bool {
	a.proxy.mu.Lock()
	defer a.proxy.mu.Unlock()
	if !slices.Contains(a.proxy.rules, a) {
		return false
	}
	a.applied++
	if a.Times > 0 && a.applied >= a.Times && a.Effect.kind != kindHang {
		a.proxy.drop(a)
	}
	return true
}

// onRequest finds the first rule of a kind for a request, or for a part of it.
func onRequest(rules []*Added, resource string, verb Verb, kinds ...kind) *Added {
	for _, a := range rules {
		if slices.Contains(kinds, a.Effect.kind) && a.coversRequest(resource, verb) {
			return a
		}
	}
	return nil
}

func (m Match) coversRequest(resource string, verb Verb) bool {
	return (m.Resource == "" || m.Resource == resource) && (m.Verb == "" || m.Verb == verb)
}

func (m Match) coversObject(resource string, verb Verb, namespace, name string) bool {
	return m.coversRequest(resource, verb) &&
		(m.Namespace == "" || m.Namespace == namespace) && (m.Name == "" || m.Name == name)
}
