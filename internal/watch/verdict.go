package watch

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reason is why a resource cannot be read.
type Reason string

// The reasons.
const (
	Forbidden    Reason = "Forbidden"
	Unauthorized Reason = "Unauthorized"
	Missing      Reason = "Missing"     // the resource is not served: its CRD lacks
	Overloaded   Reason = "Overloaded"  // the server asks to wait
	Certificate  Reason = "Certificate" // one side does not accept the other's
	Unreachable  Reason = "Unreachable" // no answer of an API server at all
	Failed       Reason = "Failed"
)

// ReasonOf finds the reason of a failed list or watch.
func ReasonOf(err error) Reason {
	var (
		unknownCA   x509.UnknownAuthorityError
		badHost     x509.HostnameError
		badCert     x509.CertificateInvalidError
		anyNetError net.Error
	)
	switch {
	case apierrors.IsForbidden(err):
		return Forbidden
	case apierrors.IsUnauthorized(err):
		return Unauthorized
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return Missing
	case apierrors.IsTooManyRequests(err):
		return Overloaded
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return Failed
	case errors.As(err, &unknownCA), errors.As(err, &badHost), errors.As(err, &badCert):
		return Certificate
	case errors.As(err, &anyNetError), errors.Is(err, context.DeadlineExceeded):
		return Unreachable
	}
	return Failed
}

// Lives reports whether the server answered: what lacks is then a right or a
// resource, not life.
func (r Reason) Lives() bool {
	switch r {
	case Forbidden, Unauthorized, Missing, Overloaded, Certificate:
		return true
	case Unreachable, Failed:
	}
	return false
}

// settle is how long an API server may refuse before it counts. For a moment
// after its start it knows neither roles nor custom resources, and answers 403
// and 404 for both.
const settle = 3 * time.Second

type verb int

const (
	verbList verb = iota
	verbWatch
)

// verdict turns the outcomes of single calls into whether a resource can be
// read: only when list and watch both work, and not when a refusal is younger
// than settle.
type verdict struct {
	report func(error)
	now    func() time.Time

	mu     sync.Mutex // guards the fields below, and the order of reports
	failed [2]bool    // by verb
	reason Reason
	since  time.Time // when this reason began
}

func (v *verdict) called(by verb, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failed[by] = err != nil
	if err == nil {
		if v.failed == [2]bool{} {
			v.reason = ""
			v.report(nil)
		}
		return
	}
	now, reason := v.now(), ReasonOf(err)
	if reason != v.reason {
		v.reason, v.since = reason, now
	}
	if reason == Unreachable || now.Sub(v.since) >= settle {
		v.report(err)
	}
}

// transient reports an answer that is part of the protocol and that the
// Reflector deals with by itself.
func transient(err error, options metav1.ListOptions) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		// A server that does not know streaming lists; a plain list follows.
		options.SendInitialEvents != nil && apierrors.IsInvalid(err)
}
