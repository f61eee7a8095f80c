package mcs

import (
	"cmp"
	"fmt"
	"strings"
)

// ServiceKey is the identity of a multi-cluster service: by namespace sameness
// (KEP-1645) it is the same service in every cluster of the set.
type ServiceKey struct {
	Namespace string
	Name      string
}

// String is "namespace/name".
func (k ServiceKey) String() string { return k.Namespace + "/" + k.Name }

// Compare orders keys by namespace, then by name.
func (k ServiceKey) Compare(other ServiceKey) int {
	return cmp.Or(cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Name, other.Name))
}

// ParseServiceKey is the inverse of String.
func ParseServiceKey(s string) (ServiceKey, error) {
	namespace, name, ok := strings.Cut(s, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return ServiceKey{}, fmt.Errorf("parse service key %q: want namespace/name", s)
	}
	return ServiceKey{Namespace: namespace, Name: name}, nil
}
