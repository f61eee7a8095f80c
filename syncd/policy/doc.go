// Package policy decides what becomes of peers that cannot be read: the state a
// peer is in, whether its endpoints serve, and which of its withdrawals are
// believed. "Cannot read" is not "empty", and an API that cannot be read is not
// a pod network that is down.
//
// It takes values and returns values: times come in, and nothing here has a
// clock, a client, a goroutine or a log.
package policy
