// Package apply carries plans out: changes in, API calls out.
//
// It also holds what syncd has written so far, as the watches of the local
// cluster tell it (Cache). The answer to a write goes there at once, so that a
// watch that lags behind does not cause the same write twice.
package apply
