package caserun

import (
	"maps"
	"slices"
	"strings"
	"unicode"
)

// nowhere is an address that no case uses.
const nowhere = "203.0.113.254"

// queryInversion is what a query would have to fail with.
type queryInversion struct {
	kind   string
	expect QueryExpect
}

// inversions turn one thing after the other in what a query expects into its
// opposite.
func (q *Query) inversions() []queryInversion {
	var list []queryInversion
	add := func(kind string, change func(*QueryExpect)) {
		e := q.Expect
		change(&e)
		list = append(list, queryInversion{kind, e})
	}
	number := func(kind string, have *int, field func(*QueryExpect) **int, to int) {
		if have != nil {
			add(kind, func(e *QueryExpect) { *field(e) = &to })
		}
	}
	flag := func(kind string, have *bool, field func(*QueryExpect) **bool) {
		if have != nil {
			other := !*have
			add(kind, func(e *QueryExpect) { *field(e) = &other })
		}
	}
	e := q.Expect
	if len(e.Rcode) > 0 && q.Via == "" {
		add("rcode", func(e *QueryExpect) { e.Rcode = otherRcode(e.Rcode) })
	}
	if e.Answer != nil {
		add("answer", func(e *QueryExpect) { e.Answer = otherAnswer(q, *e.Answer) })
	}
	if e.Answer != nil && e.ExactCase && len(*e.Answer) > 0 {
		add("exact_case", func(e *QueryExpect) {
			owner, rest, _ := strings.Cut((*e.Answer)[0], " ")
			answer := slices.Clone(*e.Answer)
			answer[0] = swapCase(owner) + " " + rest
			e.Answer = &answer
		})
	}
	if e.AnswerCount != nil {
		number("answer_count", e.AnswerCount, func(e *QueryExpect) **int { return &e.AnswerCount }, *e.AnswerCount+1)
	}
	number("answer_count_min", e.AnswerCountMin, func(e *QueryExpect) **int { return &e.AnswerCountMin }, 1<<20)
	if e.AnswerTypes != nil {
		add("answer_types", func(e *QueryExpect) { e.AnswerTypes = &Words{"LOC"} })
	}
	if len(e.AnswerContains) > 0 {
		add("answer_contains", func(e *QueryExpect) { e.AnswerContains = *otherAnswer(q, e.AnswerContains) })
		add("answer_excludes", func(e *QueryExpect) {
			e.AnswerExcludes = Words{record(strings.Fields(e.AnswerContains[0])).data()}
		})
	}
	if e.Authority == "soa" {
		add("authority", func(e *QueryExpect) { e.SOAOwner = "inverted.example." })
	}
	number("soa_ttl_max", e.SOATTLMax, func(e *QueryExpect) **int { return &e.SOATTLMax }, -1)
	number("soa_minimum_max", e.SOAMinimumMax, func(e *QueryExpect) **int { return &e.SOAMinimumMax }, -1)
	number("max_size", e.MaxSize, func(e *QueryExpect) **int { return &e.MaxSize }, 11)
	number("ttl_min", e.TTLMin, func(e *QueryExpect) **int { return &e.TTLMin }, 1<<20)
	number("ttl_max", e.TTLMax, func(e *QueryExpect) **int { return &e.TTLMax }, -1)
	if e.ExitStatus != nil {
		number("exit_status", e.ExitStatus, func(e *QueryExpect) **int { return &e.ExitStatus }, *e.ExitStatus+1)
	}
	flag("aa", e.AA, func(e *QueryExpect) **bool { return &e.AA })
	flag("tc", e.TC, func(e *QueryExpect) **bool { return &e.TC })
	flag("opt", e.OPT, func(e *QueryExpect) **bool { return &e.OPT })
	flag("ttl_equal", e.TTLEqual, func(e *QueryExpect) **bool { return &e.TTLEqual })
	flag("answer_same", e.AnswerSame, func(e *QueryExpect) **bool { return &e.AnswerSame })
	flag("answer_no_duplicates", e.AnswerNoDuplicates, func(e *QueryExpect) **bool { return &e.AnswerNoDuplicates })
	flag("follow_targets", e.FollowTargets, func(e *QueryExpect) **bool { return &e.FollowTargets })
	flag("targets_valid_hostname", e.TargetsValidHostname, func(e *QueryExpect) **bool { return &e.TargetsValidHostname })
	if e.LatencyMaxMS != nil {
		never := -1.0
		add("latency_max_ms", func(e *QueryExpect) { e.LatencyMaxMS = &never })
	}
	return list
}

// otherRcode is an rcode that is not allowed.
func otherRcode(allowed Words) Words {
	for _, rcode := range []string{"NXDOMAIN", "NOERROR", "SERVFAIL", "REFUSED", "NOTIMP", "YXDOMAIN"} {
		if !slices.Contains(allowed, rcode) {
			return Words{rcode}
		}
	}
	return nil
}

// otherAnswer has another last field in its last record, or a record where there
// was none.
func otherAnswer(q *Query, answer Words) *Words {
	other := slices.Clone(answer)
	if len(other) == 0 {
		return &Words{q.Name + " A " + nowhere}
	}
	fields := strings.Fields(other[len(other)-1])
	if len(fields) < 3 {
		return &Words{q.Name + " A " + nowhere}
	}
	fields[len(fields)-1] = nowhere
	other[len(other)-1] = strings.Join(fields, " ")
	return &other
}

func swapCase(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, text)
}

func (o ObjectCheck) inversions() []inversion {
	var list []inversion
	add := func(kind string, change func(*ObjectCheck)) {
		other := o
		change(&other)
		list = append(list, inversion{"objects." + kind, other.eval})
	}
	if o.Absent || o.Match == nil && o.Addresses == nil && o.Count == nil {
		add("absent", func(o *ObjectCheck) { o.Absent = !o.Absent })
	}
	if o.Match != nil {
		add("match", func(o *ObjectCheck) {
			if changed, ok := otherLeaf(map[string]any(o.Match)).(map[string]any); ok {
				o.Match = changed
			}
		})
	}
	if o.Addresses != nil {
		add("addresses", func(o *ObjectCheck) {
			other := append(slices.Clone(*o.Addresses), nowhere)
			o.Addresses = &other
		})
	}
	if o.Count != nil {
		add("count", func(o *ObjectCheck) {
			n := *o.Count + 1
			o.Count = &n
		})
	}
	if o.ManagedBy != "" {
		add("managed_by", func(o *ObjectCheck) { o.ManagedBy = "inverted.example" })
	}
	if o.ForbidLabels != nil && len(o.Select) > 0 {
		add("forbid_labels", func(o *ObjectCheck) { o.ForbidLabels = derivedLabels(o.Select) })
	}
	return list
}

// otherLeaf is a value with its first plain part changed, in the order of keys.
func otherLeaf(value any) any {
	switch v := value.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		if len(keys) == 0 {
			return "inverted"
		}
		other := maps.Clone(v)
		other[keys[0]] = otherLeaf(v[keys[0]])
		return other
	case []any:
		if len(v) == 0 {
			return []any{"inverted"}
		}
		other := slices.Clone(v)
		other[0] = otherLeaf(v[0])
		return other
	case int64:
		return v + 1
	case bool:
		return !v
	default:
		return "inverted"
	}
}

func (o ConditionCheck) inversions() []inversion {
	var list []inversion
	add := func(kind string, change func(*ConditionCheck)) {
		other := o
		change(&other)
		list = append(list, inversion{"conditions." + kind, other.eval})
	}
	add("status", func(o *ConditionCheck) {
		if o.Status == "True" {
			o.Status = "False"
		} else {
			o.Status = "True"
		}
	})
	if o.Reason != "" {
		add("reason", func(o *ConditionCheck) { o.Reason = "Inverted" })
	}
	if o.ReasonContains != "" {
		add("reason_contains", func(o *ConditionCheck) { o.ReasonContains = "Inverted" })
	}
	if o.ReasonMatches != "" {
		add("reason_matches", func(o *ConditionCheck) { o.ReasonMatches = "^Inverted$" })
	}
	return list
}

func (o LocalCheck) inversions() []inversion {
	if o.Addresses == nil {
		return nil
	}
	other := o
	addresses := append(slices.Clone(*o.Addresses), nowhere)
	other.Addresses = &addresses
	return []inversion{{"local_endpoints.addresses", other.eval}}
}

func (o LogCheck) inversions() []inversion {
	silent := o
	silent.Contains = "no line has this text"
	list := []inversion{{"logs.contains", silent.eval}}
	if o.Level != "" {
		loud := o
		loud.Level = "debug"
		list = append(list, inversion{"logs.level", loud.eval})
	}
	if o.MaxPerMinute != nil {
		busy, never := o, -1
		busy.MaxPerMinute = &never
		list = append(list, inversion{"logs.max_per_minute", busy.eval})
	}
	return list
}

// opposites are what metrics show otherwise.
var opposites = map[string]string{"down": "up", "up": "down", "present": "absent", "absent": "present"}

func (o MetricCheck) inversions() []inversion {
	var list []inversion
	for part := range strings.SplitSeq(o.Shows, ", ") {
		if opposite, ok := opposites[part]; ok {
			other := o
			other.Shows = opposite
			list = append(list, inversion{"metrics.shows", other.eval})
		}
	}
	return list
}

func (o ManifestCheck) inversions() []inversion {
	var list []inversion
	add := func(kind string, change func(*ManifestCheck)) {
		other := o
		change(&other)
		list = append(list, inversion{"manifests." + kind, other.eval})
	}
	if len(o.PortsContain) > 0 {
		add("ports_contain", func(o *ManifestCheck) {
			o.PortsContain = append(slices.Clone(o.PortsContain), Object{"port": int64(54)})
		})
	}
	if o.JSONSchema != nil {
		add("json_schema", func(o *ManifestCheck) { o.JSONSchema = Object{"type": "string"} })
	}
	if o.HasKey != "" {
		add("has_key", func(o *ManifestCheck) { o.HasKey = "inverted.example" })
	}
	return list
}
