// Package model holds the values that syncd thinks in: what each cluster offers
// (Export), what was agreed (Import), and what is known of one service right
// now (View). It is pure: no client, clock, goroutine or logger.
package model
