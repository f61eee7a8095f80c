// Package deploy holds the manifests as they are shipped, so that tests and the
// demo run under exactly these roles.
package deploy

import "embed"

// RBAC has the roles: namespace.yaml, syncd.yaml (own cluster), peer.yaml (what
// a peer may read here) and mcs-core-dns.yaml. A test that acts as one of the
// ServiceAccounts needs no token: a client certificate of the user
// "system:serviceaccount:NAMESPACE:NAME" has the same rights.
//
//go:embed rbac/*.yaml
var RBAC embed.FS

// CRDs has the custom resource definitions: those of the MCS API, and in
// gke-compat that of GKE's kind, for `syncd --gke-compat`.
//
//go:embed crds/*.yaml crds/gke-compat/*.yaml
var CRDs embed.FS
