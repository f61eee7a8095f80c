// Package mcs holds the words that the two halves of k8s-mcs share: labels,
// annotations, derived names, cluster ids and service keys.
//
// The contract between syncd and the k8s_mcs plugin is Kubernetes objects, not
// Go types. What is written here therefore outlives the code: a name or label
// that changes needs a migration of running clusters. docs/objects.md shows the
// same tables, and a test compares them.
//
// The package imports nothing but the standard library, so that the pure
// packages above it stay pure. The alias of the API version lives in the
// sub-package api.
package mcs
