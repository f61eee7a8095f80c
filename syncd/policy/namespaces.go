package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Namespaces are the ones of this cluster that take no part: nothing is exported
// from them and nothing imported into them, whoever exports it (KEP-1645,
// Restricting Exports). The zero value is none.
type Namespaces struct {
	// Denied are names, and beginnings of names followed by an asterisk.
	Denied []string
	// Allowed are names that take part although they are in Denied.
	Allowed []string
}

// DeniedByDefault are namespaces whose services must not appear under a trusted
// name in another cluster.
const DeniedByDefault = "default,kube-*"

// Closed reports whether a namespace takes no part.
func (n Namespaces) Closed(namespace string) bool {
	if slices.Contains(n.Allowed, namespace) {
		return false
	}
	return slices.ContainsFunc(n.Denied, func(denied string) bool {
		if stem, ok := strings.CutSuffix(denied, "*"); ok {
			return strings.HasPrefix(namespace, stem)
		}
		return namespace == denied
	})
}

var (
	namespaceName    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	namespacePattern = regexp.MustCompile(`^([a-z0-9][a-z0-9-]{0,61})?\*$`)
)

// ParseDenied reads names of namespaces, and beginnings of names followed by an
// asterisk, with commas between; "" is none.
func ParseDenied(text string) ([]string, error) {
	items := list(text)
	for _, item := range items {
		if !namespaceName.MatchString(item) && !namespacePattern.MatchString(item) {
			return nil, fmt.Errorf("%q: want names of namespaces, or beginnings such as kube-*, with commas between", item)
		}
	}
	return items, nil
}

// ParseAllowed reads names of namespaces with commas between; "" is none.
func ParseAllowed(text string) ([]string, error) {
	items := list(text)
	for _, item := range items {
		if !namespaceName.MatchString(item) {
			return nil, fmt.Errorf("%q: want names of namespaces, with commas between", item)
		}
	}
	return items, nil
}
