// Package plan decides which objects should stand in the local cluster for an
// import, and what has to change for that.
//
// Inputs are the import, the offers behind it, what exists here and a few local
// facts; outputs are changes, each with its reason. Nothing is changed that
// differs in nothing: the plan of a plan carried out is empty. The package is
// pure; times are handed in.
package plan
