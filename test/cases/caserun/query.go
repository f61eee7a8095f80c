package caserun

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/miekg/dns"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// viaBusybox asks by the nslookup of busybox.
const viaBusybox = "busybox-nslookup"

// check makes a check of a query.
func (q *Query) check() check {
	c := check{
		line: q.Line, what: q.Type + " " + q.Name, after: q.After, within: withinOf(q.Expect.Within),
		gap:  gapOf("queries.type=" + q.Type),
		eval: func(ctx context.Context, w *world) error { return w.query(ctx, q, &q.Expect) },
	}
	for _, inv := range q.inversions() {
		c.inverted = append(c.inverted, inversion{inv.kind, func(ctx context.Context, w *world) error {
			return w.query(ctx, q, &inv.expect)
		}})
	}
	return c
}

// query asks and compares.
func (w *world) query(ctx context.Context, q *Query, want *QueryExpect) error {
	if w.dns == nil || q.At != w.dns.cluster {
		return skipf("queries.at: the runner has a DNS server in %s only", home)
	}
	if q.Via == viaBusybox {
		return w.busybox(ctx, q, want)
	}
	var first *reply
	same := true
	for i := range max(q.Repeat, 1) {
		r, err := ask(ctx, *q, w.dns.addr)
		if err != nil {
			return err
		}
		if err := w.judge(ctx, r, q, want); err != nil {
			return err
		}
		if i == 0 {
			first = r
		} else if !slices.Equal(r.sorted(), first.sorted()) {
			same = false
		}
	}
	if want.AnswerSame != nil && same != *want.AnswerSame {
		return fmt.Errorf("answer_same over %d questions is %t, want %t", q.Repeat, same, *want.AnswerSame)
	}
	return nil
}

// busybox asks by the client that users have in small images.
func (w *world) busybox(ctx context.Context, q *Query, want *QueryExpect) error {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return skipf("queries.via: there is no busybox on this machine")
	}
	out, err := exec.CommandContext(ctx, path, "nslookup", strings.TrimSuffix(q.Name, "."), w.dns.addr).CombinedOutput() //nolint:gosec // found in PATH
	plain := QueryExpect{Rcode: want.Rcode, Answer: want.Answer, ExitStatus: want.ExitStatus, Within: want.Within}
	if !reflect.DeepEqual(*want, plain) {
		return skipf("queries.via: of what %s shows, the runner knows the answer and the exit status", viaBusybox)
	}
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		return fmt.Errorf("run busybox nslookup: %w", err)
	}
	if want.ExitStatus != nil && code != *want.ExitStatus {
		return fmt.Errorf("exit_status is %d, want %d:\n%s", code, *want.ExitStatus, out)
	}
	if want.Answer != nil {
		for _, line := range *want.Answer {
			if data := record(strings.Fields(line)).data(); !strings.Contains(string(out), data) {
				return fmt.Errorf("it does not show %s:\n%s", data, out)
			}
		}
	}
	return nil
}

// judge compares one reply with what is expected of it, and with what holds for
// every reply.
func (w *world) judge(ctx context.Context, r *reply, q *Query, want *QueryExpect) error {
	if got := dns.RcodeToString[r.Rcode]; len(want.Rcode) > 0 && !slices.Contains(want.Rcode, got) {
		return fmt.Errorf("rcode is %s, want %s; answer %q", got, strings.Join(want.Rcode, " or "), r.sorted())
	}
	checks := []error{
		r.always(w.dns.forwards),
		w.compareAnswer(ctx, r, q, want),
		r.authority(q, want, w.dns.zones),
		r.flags(want),
		r.ttls(want),
		w.serial(r, want),
		w.targets(ctx, r, q, want),
	}
	return errors.Join(checks...)
}

// always is what holds for every reply.
func (r *reply) always(forwards bool) error {
	if twice := slices.Concat(duplicates(r.Answer), duplicates(r.Ns), duplicates(r.Extra)); len(twice) > 0 {
		return fmt.Errorf("records are there twice: %q", twice)
	}
	for _, name := range r.names() {
		if _, ok := dns.IsDomainName(name); !ok || len(name) > 254 {
			return fmt.Errorf("%q is no legal name", name)
		}
	}
	authoritative := r.Rcode == dns.RcodeSuccess || r.Rcode == dns.RcodeNameError
	if !forwards && authoritative && !r.Authoritative {
		return errors.New("aa is false, want true: nothing stands behind the plugin")
	}
	return nil
}

func (w *world) compareAnswer(ctx context.Context, r *reply, q *Query, want *QueryExpect) error {
	got := r.records()
	shown := r.sorted()
	if len(shown) > 8 {
		shown = append(slices.Clone(shown[:8]), fmt.Sprintf("and %d more", len(got)-8))
	}
	if want.Answer != nil {
		patterns, err := w.patterns(ctx, q, *want.Answer)
		if err != nil {
			return err
		}
		if !sameRecords(got, patterns, want.ExactCase) {
			return fmt.Errorf("answer is %q, want %q", shown, *want.Answer)
		}
	} else if want.ExactCase {
		for _, rec := range got {
			if rec[0] != r.Question[0].Name {
				return fmt.Errorf("owner is %s, want %s letter by letter", rec[0], r.Question[0].Name)
			}
		}
	}
	if want.AnswerCount != nil && len(got) != *want.AnswerCount {
		return fmt.Errorf("answer_count is %d, want %d; answer %q", len(got), *want.AnswerCount, shown)
	}
	if want.AnswerCountMin != nil && len(got) < *want.AnswerCountMin {
		return fmt.Errorf("answer_count is %d, want at least %d", len(got), *want.AnswerCountMin)
	}
	if want.AnswerTypes != nil {
		var types []string
		for _, rec := range got {
			types = append(types, rec[1])
		}
		slices.Sort(types)
		types = slices.Compact(types)
		if wanted := slices.Sorted(slices.Values(*want.AnswerTypes)); !slices.Equal(types, wanted) {
			return fmt.Errorf("answer_types is %q, want %q", types, wanted)
		}
	}
	contains, err := w.patterns(ctx, q, want.AnswerContains)
	if err != nil {
		return err
	}
	for _, pattern := range contains {
		if !slices.ContainsFunc(got, func(rec record) bool { return rec.matches(pattern, want.ExactCase) }) {
			return fmt.Errorf("answer is %q, want %q in it", shown, pattern)
		}
	}
	for _, data := range want.AnswerExcludes {
		if slices.ContainsFunc(got, func(rec record) bool { return address(rec.data()) == address(data) }) {
			return fmt.Errorf("answer is %q, want no %q in it", shown, data)
		}
	}
	if want.AnswerNoDuplicates != nil {
		if none := len(duplicates(r.Answer)) == 0; none != *want.AnswerNoDuplicates {
			return fmt.Errorf("answer_no_duplicates is %t, want %t; answer %q", none, *want.AnswerNoDuplicates, shown)
		}
	}
	return nil
}

// patterns reads expected records; {{SPEC_IPS:cluster/namespace/name}} is one for
// each IP of an import that the question asks for.
func (w *world) patterns(ctx context.Context, q *Query, lines []string) ([]record, error) {
	list := make([]record, 0, len(lines))
	for _, line := range lines {
		ref, ok := strings.CutPrefix(line, "{{SPEC_IPS:")
		if !ok {
			list = append(list, strings.Fields(line))
			continue
		}
		parts := strings.Split(strings.TrimSuffix(ref, "}}"), "/")
		if len(parts) != 3 {
			return nil, fmt.Errorf("answer %q: want {{SPEC_IPS:cluster/namespace/name}}", line)
		}
		o, err := w.get(ctx, parts[0], "ServiceImport", parts[1], parts[2])
		if err != nil {
			return nil, err
		}
		ips, _, err := unstructured.NestedStringSlice(o.Object, "spec", "ips")
		if err != nil || len(ips) == 0 {
			return nil, errors.Join(fmt.Errorf("answer %q: the import has no IPs", line), err)
		}
		for _, ip := range ips {
			if strings.Contains(ip, ":") == (q.Type == "AAAA") {
				list = append(list, record{q.Name, q.Type, ip})
			}
		}
	}
	return list, nil
}

// sameRecords reports whether each record has its own pattern, and each pattern
// its record.
func sameRecords(got, patterns []record, exactCase bool) bool {
	if len(got) != len(patterns) {
		return false
	}
	left := slices.Clone(patterns)
	for _, rec := range got {
		at := slices.IndexFunc(left, func(p record) bool { return rec.matches(p, exactCase) })
		if at < 0 {
			return false
		}
		left = slices.Delete(left, at, at+1)
	}
	return true
}

func (r *reply) authority(q *Query, want *QueryExpect, zones []string) error {
	if want.Authority == "" && want.SOAOwner == "" && want.SOATTLMax == nil && want.SOAMinimumMax == nil {
		return nil
	}
	if want.Authority == "any" {
		return nil
	}
	var soa *dns.SOA
	for _, rr := range r.Ns {
		if v, ok := rr.(*dns.SOA); ok && soa == nil {
			soa = v
		}
	}
	if soa == nil || want.Authority == "soa" && len(r.Ns) != 1 {
		return fmt.Errorf("authority is %v, want one SOA", r.Ns)
	}
	owner := strings.ToLower(soa.Hdr.Name)
	if want.Authority == "soa" && (!slices.Contains(zones, owner) || !dns.IsSubDomain(owner, strings.ToLower(q.Name))) {
		return fmt.Errorf("the SOA is owned by %s, want the zone of the question among %q", owner, zones)
	}
	if want.SOAOwner != "" && owner != dns.CanonicalName(want.SOAOwner) {
		return fmt.Errorf("soa_owner is %s, want %s", owner, want.SOAOwner)
	}
	if want.SOATTLMax != nil && int(soa.Hdr.Ttl) > *want.SOATTLMax {
		return fmt.Errorf("the SOA's TTL is %d, want at most %d", soa.Hdr.Ttl, *want.SOATTLMax)
	}
	if want.SOAMinimumMax != nil && int(soa.Minttl) > *want.SOAMinimumMax {
		return fmt.Errorf("the SOA's minimum is %d, want at most %d", soa.Minttl, *want.SOAMinimumMax)
	}
	return nil
}

func (r *reply) flags(want *QueryExpect) error {
	for _, flag := range []struct {
		name string
		want *bool
		got  bool
	}{{"aa", want.AA, r.Authoritative}, {"tc", want.TC, r.Truncated}, {"opt", want.OPT, r.IsEdns0() != nil}} {
		if flag.want != nil && *flag.want != flag.got {
			return fmt.Errorf("%s is %t, want %t", flag.name, flag.got, *flag.want)
		}
	}
	if want.MaxSize != nil && r.size > *want.MaxSize {
		return fmt.Errorf("size is %d octets, want at most %d", r.size, *want.MaxSize)
	}
	if ms := float64(r.took.Microseconds()) / 1000; want.LatencyMaxMS != nil && ms > *want.LatencyMaxMS {
		return fmt.Errorf("the reply took %.1f ms, want at most %.1f ms", ms, *want.LatencyMaxMS)
	}
	return nil
}

func (r *reply) ttls(want *QueryExpect) error {
	equal := true
	for _, rr := range r.Answer {
		ttl := int(rr.Header().Ttl)
		equal = equal && ttl == int(r.Answer[0].Header().Ttl)
		if want.TTLMin != nil && ttl < *want.TTLMin || want.TTLMax != nil && ttl > *want.TTLMax {
			return fmt.Errorf("a TTL is %d: %s", ttl, rr)
		}
	}
	if want.TTLEqual != nil && equal != *want.TTLEqual {
		return fmt.Errorf("ttl_equal is %t, want %t", equal, *want.TTLEqual)
	}
	return nil
}

func (w *world) serial(r *reply, want *QueryExpect) error {
	if want.SaveSerial == "" && want.Serial == nil {
		return nil
	}
	for _, rr := range slices.Concat(r.Answer, r.Ns) {
		soa, ok := rr.(*dns.SOA)
		if !ok {
			continue
		}
		if want.SaveSerial != "" {
			w.serials[want.SaveSerial] = soa.Serial
		}
		if want.Serial == nil {
			return nil
		}
		for _, compare := range []struct {
			name string
			ok   func(old uint32) bool
		}{
			{want.Serial.Equal, func(old uint32) bool { return soa.Serial == old }},
			{want.Serial.Greater, func(old uint32) bool { return soa.Serial != old && soa.Serial-old < 1<<31 }},
		} {
			old, saved := w.serials[compare.name]
			if compare.name == "" {
				continue
			}
			if !saved {
				return fmt.Errorf("no serial %s is saved", compare.name)
			}
			if !compare.ok(old) {
				return fmt.Errorf("the serial is %d after %d (%s)", soa.Serial, old, compare.name)
			}
		}
		return nil
	}
	return errors.New("there is no SOA to take a serial from")
}

var hostLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (w *world) targets(ctx context.Context, r *reply, q *Query, want *QueryExpect) error {
	if want.TargetsValidHostname == nil && want.FollowTargets == nil {
		return nil
	}
	valid, followed, seen := true, true, 0
	for _, rr := range r.Answer {
		srv, ok := rr.(*dns.SRV)
		if !ok {
			continue
		}
		seen++
		for _, label := range dns.SplitDomainName(srv.Target) {
			valid = valid && hostLabel.MatchString(strings.ToLower(label))
		}
		if want.FollowTargets == nil {
			continue
		}
		addresses := 0
		for _, qtype := range []string{"A", "AAAA"} {
			target, err := ask(ctx, Query{Name: srv.Target, Type: qtype, Proto: q.Proto}, w.dns.addr)
			if err != nil {
				return fmt.Errorf("follow target: %w", err)
			}
			addresses += len(target.Answer)
		}
		followed = followed && addresses > 0
	}
	if seen == 0 {
		return errors.New("there is no SRV record to look at")
	}
	if want.TargetsValidHostname != nil && valid != *want.TargetsValidHostname {
		return fmt.Errorf("targets_valid_hostname is %t, want %t: %q", valid, *want.TargetsValidHostname, r.sorted())
	}
	if want.FollowTargets != nil && followed != *want.FollowTargets {
		return fmt.Errorf("follow_targets is %t, want %t: %q", followed, *want.FollowTargets, r.sorted())
	}
	return nil
}
