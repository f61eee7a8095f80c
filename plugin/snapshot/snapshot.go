package snapshot

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

// Fingerprint tells whether a snapshot fits who wants to serve it.
type Fingerprint struct {
	// Cluster is the UID of the namespace kube-system, which no other cluster has.
	Cluster string
	// Zones are those of the plugin, in its order.
	Zones []string
	// Namespaces are those that are followed, sorted; empty means all.
	Namespaces []string
	// PodNames is whether endpoints are named by their pods.
	PodNames bool
}

// Difference says in which way the snapshot that f stands in does not fit
// want, in words for a log line; empty when it does. An empty Cluster of want
// is not compared: it is not known.
func (f Fingerprint) Difference(want Fingerprint) string {
	var d []string
	if want.Cluster != "" && f.Cluster != want.Cluster {
		d = append(d, fmt.Sprintf("cluster: namespace kube-system had the UID %s and has %s", f.Cluster, want.Cluster))
	}
	if !slices.Equal(f.Zones, want.Zones) {
		d = append(d, fmt.Sprintf("zones: were %q and are %q", f.Zones, want.Zones))
	}
	if !slices.Equal(f.Namespaces, want.Namespaces) {
		d = append(d, fmt.Sprintf("option namespaces: was %q and is %q", f.Namespaces, want.Namespaces))
	}
	if f.PodNames != want.PodNames {
		d = append(d, fmt.Sprintf("option endpoint_pod_names: was %t and is %t", f.PodNames, want.PodNames))
	}
	return strings.Join(d, "; ")
}

// Header is what a snapshot says about itself.
type Header struct {
	Fingerprint
	// Taken is when the API server was last known to say the same.
	Taken time.Time
	// Serial is that of the zone then; the next one must be above it.
	Serial uint32
}

// Inputs are the inputs of the zone.
type Inputs struct {
	Imports []zone.Import
	Slices  []zone.Slice
}

// Snapshot is a snapshot that was read and whose checksums match. Its inputs
// are decoded on demand, because a server whose API server is well needs none.
type Snapshot struct {
	Header
	inputs string // encoded
}

// The ways in which bytes are no snapshot; errors.Is tells them apart.
var (
	// ErrTruncated is about bytes that end early.
	ErrTruncated = errors.New("it is truncated")
	// ErrDamaged is about bytes that are not those that were written.
	ErrDamaged = errors.New("its checksum does not match, so it is damaged")
	// ErrVersion is about a format that this program does not know.
	ErrVersion = errors.New("another version of this program wrote it")
)
