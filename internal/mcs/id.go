package mcs

import (
	"errors"
	"fmt"
	"strings"
)

// ClusterID names a cluster within its clusterset (KEP-1645, Terminology; KEP-2149).
// It is one DNS label, or two joined by a dot ("name.registry"), and at most
// 63 characters in all, because it is a label value. It is used in DNS names.
type ClusterID string

// maxClusterID is the limit of a Kubernetes label value.
const maxClusterID = 63

// ParseClusterID checks an id as a person or a Secret's label gives it. The
// error says what is wrong and what would be right.
func ParseClusterID(s string) (ClusterID, error) {
	if s == "" {
		return "", errors.New("cluster id is empty: want one DNS label, or two joined by a dot")
	}
	if len(s) > maxClusterID {
		return "", fmt.Errorf("cluster id %q has %d characters: at most %d are allowed, because it is also a label value", s, len(s), maxClusterID)
	}
	labels := strings.Split(s, ".")
	if len(labels) > 2 {
		return "", fmt.Errorf("cluster id %q has %d labels: want one DNS label, or two joined by a dot", s, len(labels))
	}
	for _, label := range labels {
		if !isDNSLabel(label) {
			return "", fmt.Errorf("cluster id %q: %q is not a DNS label: want lower-case letters, digits and '-', beginning and ending with a letter or digit", s, label)
		}
	}
	return ClusterID(s), nil
}

// isDNSLabel reports whether s is an RFC 1123 label as Kubernetes reads it:
// 1 to 63 lower-case letters, digits or '-', none at either end.
func isDNSLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
