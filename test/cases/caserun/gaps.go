package caserun

import (
	"errors"
	"fmt"
)

// gaps lists what the product is known not to do yet, by the word of a case
// that asks for it. Such a case runs all the same: as long as the check that
// asks for it fails, the case is skipped with the reason; once all of them pass,
// the case fails until the gap is taken off this list.
var gaps = map[string]string{}

// gapOf is the gap that a check falls into, if any.
func gapOf(word string) string {
	if _, ok := gaps[word]; ok {
		return word
	}
	return ""
}

// gapError is a failed check that falls into a gap.
type gapError struct {
	gap string
	err error
}

// Error implements error.
func (e *gapError) Error() string { return e.err.Error() }

// Unwrap implements errors.Unwrap.
func (e *gapError) Unwrap() error { return e.err }

// throughGaps is the outcome of a case in the light of the gaps.
func (c *Case) throughGaps(err error) error {
	if gap := (*gapError)(nil); errors.As(err, &gap) {
		return skipf("%s", gaps[gap.gap])
	}
	if err != nil {
		return err
	}
	for _, check := range c.checks() {
		if check.gap != "" {
			return fmt.Errorf("%s:%d: this holds although gaps.go says that %s: take %s off that list", c.File, check.line, gaps[check.gap], check.gap)
		}
	}
	return nil
}
