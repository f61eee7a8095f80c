package mcs

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"
)

const (
	// DefaultDerivedPrefix begins the names of derived Services unless a flag
	// says otherwise; "gke-mcs-" gives the names that GKE gives.
	DefaultDerivedPrefix = "mcs-"

	derivedHashLength = 10
	sliceHashLength   = 12
	sliceStemLength   = 40
)

// hashEncoding is base32hex in lower case without padding, as the mcs-api
// reference controller and GKE write it.
var hashEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// DerivedName is the name of the Service that carries the clusterset IP of a
// service: the prefix and the first 10 characters of the lower-case base32hex
// of sha256("namespace/name"). Equal keys give equal names in every cluster.
func DerivedName(prefix string, key ServiceKey) string {
	sum := sha256.Sum256([]byte(key.String()))
	return prefix + hashEncoding.EncodeToString(sum[:])[:derivedHashLength]
}

// SliceName is the name of the local mirror of a peer's EndpointSlice: the
// service name cut to 40 characters, and 12 base32hex characters of a sha256
// over all that makes the slice another one. Each part is hashed as its length,
// a colon and its bytes, so that no two lists of parts give the same input.
func SliceName(cluster ClusterID, key ServiceKey, sourceSlice, addressType string) string {
	var in strings.Builder
	for _, part := range [...]string{string(cluster), key.Namespace, key.Name, sourceSlice, addressType} {
		in.WriteString(strconv.Itoa(len(part)))
		in.WriteByte(':')
		in.WriteString(part)
	}
	sum := sha256.Sum256([]byte(in.String()))
	stem := key.Name[:min(len(key.Name), sliceStemLength)]
	return stem + "-" + hashEncoding.EncodeToString(sum[:])[:sliceHashLength]
}
