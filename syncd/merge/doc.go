// Package merge decides what the exporters of a service agree on (KEP-1645,
// Constraints and Conflict Resolution).
//
// Inputs are the offers of all clusters, in any order; the output is the Import.
// The oldest ServiceExport wins, and between equals the smaller cluster id, so
// that all clusters compute the same from the same offers. The package is pure.
package merge
