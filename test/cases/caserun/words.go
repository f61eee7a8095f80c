package caserun

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// notYet lists the words of SCHEMA.md that this runner does not know, by the
// path of keys ("do:" before a verb, "=" before a value), with the reason.
var notYet = map[string]string{
	"config.front":                 "there is no resolver between client and server yet",
	"config.cluster_families":      "clusters of the runner are dual stack",
	"config.vip_pool_size":         "ranges of the runner's clusters have one size",
	"credentials.set=server_moved": "the runner does not move API servers",
	"events.snapshot":              "API servers cannot be set back yet",
	"events.restore":               "API servers cannot be set back yet",
	"events.to":                    "the runner does not move API servers",
	"events.at":                    "the runner changes rights in the cluster of the process only",
	"events.cut_watches":           "the runner changes rights without touching connections",
	"events.remove_peer":           "options cannot change under a running syncd",
	"events.rename_cluster":        "options cannot change under a running syncd",
	"events.denied_namespaces":     "options cannot change under a running syncd",
	"events.body":                  "loop is not there yet",
	"events.restart_syncd_every":   "loop is not there yet",
	"do:config":                    "options cannot change under a running syncd",
	"do:loop":                      "it is not there yet",
	"do:conflict_storm":            "there is no competing writer yet",
	"queries.via=front":            "there is no resolver between client and server yet",
	"expect.distinct_names":        "it is not there yet",
	"expect.vip_pool":              "it is not there yet",
	"expect.api_watches":           "watches are not counted yet",
	"expect.goroutines":            "no process of ours tells its goroutines by a page",
	"expect.manifests.merge":       "how other entries survive is not checked yet",
}

// layers say what a case needs.
var layers = []string{"dns", "sync", "config", "e2e"}

// processes are the programs under test.
var processes = []string{"dns", "syncd"}

// verb is what an event can do.
type verb struct {
	fields []string // beside step and do
	sets   []string // values of set
	run    runVerb
}

// check looks at words that stand as values, and at what goes together.
func (r *reader) check(c *Case) {
	r.oneOf(1, "layer", c.Layer, layers...)
	for _, g := range c.Generate {
		r.oneOf(g.Line, "generate.kind", g.Kind, slices.Sorted(maps.Keys(generators))...)
	}
	r.oneOf(1, "config.api_at_start", c.Config.APIAtStart, "", "unreachable", "reachable")
	for _, b := range c.Config.APIBlock {
		r.oneOf(1, "config.api_block.answer", b.Answer, "hang")
		if !has([]string{"", "list", "watch"}, b.Verb) {
			r.skip("config.api_block: the runner makes list and watch hang, not " + b.Verb)
		}
	}
	for _, deny := range c.Config.RBACDeny {
		r.oneOf(1, "config.rbac_deny.process", deny.Process, processes...)
	}
	for _, state := range c.Config.CRDsAtStart {
		r.oneOf(1, "config.crds_at_start", state, "absent", "installed")
	}
	for _, v := range slices.Concat(c.Config.CorefileVariants, c.Config.SyncdVariants) {
		r.oneOf(v.Line, "expect_start", v.ExpectStart, "ok", "error")
	}
	r.oneOf(1, "expect.start", c.Expect.Start, "", "ok")
	for _, e := range c.Events {
		r.event(e)
	}
	for _, q := range c.Queries {
		r.query(q)
	}
	r.expectations(&c.Expect)
}

func (r *reader) oneOf(line int, what, word string, allowed ...string) {
	if slices.Contains(allowed, word) {
		return
	}
	if reason, ok := notYet[what+"="+word]; ok {
		r.skip(what + " " + word + ": " + reason)
		return
	}
	r.fail(line, "%s is %q: want one of %s", what, word, strings.Trim(fmt.Sprintf("%q", allowed), "[]"))
}

func (r *reader) event(e Event) {
	v, ok := verbs[e.Do]
	if reason, later := notYet["do:"+e.Do]; !ok && later {
		r.skip("verb " + e.Do + ": " + reason)
		return
	}
	if !ok {
		r.fail(e.Line, "do is %q: no such verb in SCHEMA.md", e.Do)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(e.keys)) {
		if key != "step" && key != "do" && !slices.Contains(v.fields, key) {
			r.skip(fmt.Sprintf("verb %s: the runner does not know %s for it", e.Do, key))
		}
	}
	if e.Step < 1 {
		r.fail(e.Line, "step is %d: want 1 or more", e.Step)
	}
	if slices.Contains(v.fields, "set") && (e.Set != "" || e.Unblock == nil) {
		r.oneOf(e.Line, e.Do+".set", e.Set, v.sets...)
	}
	if slices.Contains(v.fields, "process") {
		r.oneOf(e.Line, e.Do+".process", e.Process, processes...)
	}
	for _, ref := range append(slices.Clone(e.Refs), e.Ref) {
		if kind, name, ok := strings.Cut(ref, "/"); ref != "" && (!ok || name == "") {
			r.fail(e.Line, "%q: want Kind/name", ref)
		} else if ref != "" {
			r.kind(e.Line, kind)
		}
	}
	if e.Kind != "" {
		r.kind(e.Line, e.Kind)
	}
}

func (r *reader) kind(line int, kind string) {
	if _, ok := resources[kind]; !ok {
		r.fail(line, "kind is %q: want one of %s", kind, strings.Join(slices.Sorted(maps.Keys(resources)), ", "))
	}
}

func (r *reader) query(q Query) {
	if _, ok := dns.StringToType[q.Type]; !ok {
		r.fail(q.Line, "type is %q: want a DNS type", q.Type)
	}
	if _, ok := dns.StringToClass[q.Class]; q.Class != "" && !ok {
		r.fail(q.Line, "class is %q: want a DNS class", q.Class)
	}
	if _, ok := dns.IsDomainName(q.Name); !ok || !dns.IsFqdn(q.Name) {
		r.fail(q.Line, "name is %q: want an absolute domain name", q.Name)
	}
	r.oneOf(q.Line, "queries.proto", q.Proto, "", "udp", "tcp")
	r.oneOf(q.Line, "queries.via", q.Via, "", viaBusybox)
	r.oneOf(q.Line, "queries.expect.authority", q.Expect.Authority, "", "soa", "any")
	if len(q.Expect.Rcode) == 0 && q.Via == "" {
		r.fail(q.Line, "expect has no rcode")
	}
	for _, rcode := range q.Expect.Rcode {
		if _, ok := dns.StringToRcode[rcode]; !ok {
			r.fail(q.Line, "rcode is %q: want the name of an rcode", rcode)
		}
	}
	if q.At == "" {
		r.fail(q.Line, "query says not at which cluster")
	}
}

func (r *reader) expectations(e *Expect) {
	for _, o := range e.Objects {
		r.kind(o.Line, o.Kind)
	}
	for _, o := range e.Conditions {
		r.kind(o.Line, o.Kind)
	}
	for _, o := range e.Unchanged {
		r.kind(o.Line, o.Kind)
		r.pair(o.Line, "between", o.Between)
	}
	for _, o := range e.SameEverywhere {
		r.kind(o.Line, o.Kind)
	}
	for _, o := range e.Consistent {
		if o.Rule != routedIPs {
			r.skip("expect.consistent: the runner does not know the rule \"" + o.Rule + "\"")
		}
	}
	for _, o := range e.Writes {
		r.oneOf(o.Line, "writes.process", o.Process, processes...)
		r.pair(o.Line, "window", o.Window)
		for _, kind := range o.ExceptKinds {
			r.kind(o.Line, kind)
		}
	}
	for _, o := range e.HTTP {
		r.oneOf(o.Line, "http.process", o.Process, processes...)
	}
	for _, o := range e.Process {
		r.oneOf(o.Line, "process", o.Process, processes...)
	}
	for _, o := range e.Logs {
		r.oneOf(o.Line, "logs.process", o.Process, processes...)
		if o.Level != "" {
			r.oneOf(o.Line, "logs.level", o.Level, slices.Sorted(maps.Keys(levels))...)
		}
	}
	for _, o := range e.Metrics {
		r.oneOf(o.Line, "metrics.process", o.Process, processes...)
		r.oneOf(o.Line, "metrics.about", o.About, aboutPeers, aboutPlugin)
		for part := range strings.SplitSeq(o.Shows, ", ") {
			if _, ok := shownBy(part); !ok {
				r.skip("expect.metrics: the runner does not know how to see \"" + part + "\"")
			}
		}
	}
}

func (r *reader) pair(line int, what string, steps []int) {
	if len(steps) != 2 || steps[0] > steps[1] {
		r.fail(line, "%s is %v: want two steps", what, steps)
	}
}
