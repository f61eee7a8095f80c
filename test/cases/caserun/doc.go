// Package caserun runs the case files of test/cases (SCHEMA.md there says what
// they are made of) against real control planes and real processes: the state
// of each cluster goes in through its API server, mcs-core-dns and syncd run
// under their own roles, and every check asks over a socket.
//
// A word of the schema that the runner does not know yet skips the case by
// name; a word that is not in the schema is an error with file and line.
package caserun
