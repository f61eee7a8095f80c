package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// OnLost is what happens to the endpoints of a peer that is lost.
type OnLost string

// The policies.
const (
	// Keep: they stay.
	Keep OnLost = "keep"
	// Fallback: they leave a service while another cluster that can be read has
	// ready ones, and stay where there is no other.
	Fallback OnLost = "fallback"
	// Withdraw: they leave.
	Withdraw OnLost = "withdraw"
)

// ParseOnLost reads a policy.
func ParseOnLost(text string) (OnLost, error) {
	switch policy := OnLost(text); policy {
	case Keep, Fallback, Withdraw:
		return policy, nil
	}
	return "", fmt.Errorf("%q: want keep, fallback or withdraw", text)
}

// Prefer says when this cluster's own endpoints are enough for a service, so
// that those of peers are held back. The zero value is never.
type Prefer struct {
	// Ready is the least number of ready endpoints, Percent the least share of
	// all own ones; one of them is 0.
	Ready, Percent int
}

// Off reports whether peers are never held back.
func (p Prefer) Off() bool { return p == Prefer{} }

// Enough reports whether ready ones of all own endpoints are enough.
func (p Prefer) Enough(ready, all int) bool {
	switch {
	case p.Off() || ready == 0:
		return false
	case p.Percent > 0:
		return ready*100 >= p.Percent*all
	}
	return ready >= p.Ready
}

// ParsePrefer reads "none", "local" (one ready endpoint is enough), "local:N" (N
// are) or "local:N%" (that share of the own ones is).
func ParsePrefer(text string) (Prefer, error) {
	if text == "none" {
		return Prefer{}, nil
	}
	bad := fmt.Errorf("%q: want none, local, local:N or local:N%%", text)
	kind, amount, given := strings.Cut(text, ":")
	if kind != "local" {
		return Prefer{}, bad
	}
	if !given {
		return Prefer{Ready: 1}, nil
	}
	number, percent := strings.CutSuffix(amount, "%")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 1 || percent && n > 100:
		return Prefer{}, bad
	case percent:
		return Prefer{Percent: n}, nil
	}
	return Prefer{Ready: n}, nil
}

// PeerOptions are what the annotations of a peer Secret say.
type PeerOptions struct {
	OnLost     OnLost
	StaleAfter time.Duration
	// Release is the operator's word, zero for none.
	Release time.Time
	// Namespaces are those whose exports are taken over; nil means all.
	Namespaces []string
	// CIDRs are where endpoints may be; nil means anywhere.
	CIDRs []netip.Prefix
}

// ParsePeerOptions reads the annotations of a peer Secret. What is wrong is told
// in one error, and the value in defaults is used for it; a wrong allow-list
// allows nothing, because who wrote it meant to narrow.
func ParsePeerOptions(annotations map[string]string, defaults PeerOptions) (PeerOptions, error) {
	o := defaults
	var problems []error
	read := func(annotation string, parse func(text string) error) {
		if text, ok := annotations[annotation]; ok {
			if err := parse(strings.TrimSpace(text)); err != nil {
				problems = append(problems, fmt.Errorf("annotation %s: %w", annotation, err))
			}
		}
	}
	read(mcs.AnnotationOnLost, func(text string) error {
		policy, err := ParseOnLost(text)
		if err == nil {
			o.OnLost = policy
		}
		return err
	})
	read(mcs.AnnotationStaleAfter, func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q: want a duration such as 5m", text)
		}
		o.StaleAfter = d
		return nil
	})
	read(mcs.AnnotationReleaseHeld, func(text string) error {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return fmt.Errorf("%q: want a time such as 2026-01-31T12:00:00Z", text)
		}
		o.Release = at
		return nil
	})
	read(mcs.AnnotationAllowNamespaces, func(text string) error {
		o.Namespaces = []string{}
		for _, name := range list(text) {
			if strings.ContainsAny(name, " */") {
				o.Namespaces = []string{}
				return fmt.Errorf("%q: want names of namespaces, with commas between", text)
			}
			o.Namespaces = append(o.Namespaces, name)
		}
		return nil
	})
	read(mcs.AnnotationAllowCIDRs, func(text string) error {
		o.CIDRs = []netip.Prefix{}
		for _, item := range list(text) {
			prefix, err := netip.ParsePrefix(item)
			if err != nil {
				o.CIDRs = []netip.Prefix{}
				return fmt.Errorf("%q: want ranges such as 10.1.0.0/16, with commas between", text)
			}
			o.CIDRs = append(o.CIDRs, prefix.Masked())
		}
		return nil
	})
	return o, errors.Join(problems...)
}

// CheckExport finds what is wrong with the annotations of a ServiceExport, in one
// error: the default counts in place of each.
func CheckExport(annotations map[string]string) error {
	var problems []error
	problem := func(annotation string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("annotation %s: %w", annotation, err))
		}
	}
	if text, ok := annotations[mcs.AnnotationOnLost]; ok {
		_, err := ParseOnLost(text)
		problem(mcs.AnnotationOnLost, err)
	}
	if text, ok := annotations[mcs.AnnotationPrefer]; ok {
		_, err := ParsePrefer(text)
		problem(mcs.AnnotationPrefer, err)
	}
	if _, ok := annotations[mcs.AnnotationStaleAfter]; ok {
		problem(mcs.AnnotationStaleAfter, errors.New("has no effect on a ServiceExport: it belongs on the Secret of a peer"))
	}
	return errors.Join(problems...)
}

// AllowsNamespace reports whether exports of a namespace are taken over.
func (o PeerOptions) AllowsNamespace(namespace string) bool {
	return o.Namespaces == nil || slices.Contains(o.Namespaces, namespace)
}

// AllowsAddress reports whether an endpoint may have an address.
func (o PeerOptions) AllowsAddress(a netip.Addr) bool {
	return o.CIDRs == nil || slices.ContainsFunc(o.CIDRs, func(p netip.Prefix) bool { return p.Contains(a) })
}

func list(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
