package watch

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	slicesResource = schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}
	errForbidden   = apierrors.NewForbidden(slicesResource, "", errors.New("no"))
	errRefused     = &net.OpError{Op: "dial", Err: errors.New("connection refused")}
)

func TestReasonOf(t *testing.T) {
	for want, c := range map[Reason]struct {
		err   error
		lives bool
	}{
		Forbidden:    {errForbidden, true},
		Unauthorized: {apierrors.NewUnauthorized("no"), true},
		Missing:      {apierrors.NewNotFound(slicesResource, ""), true},
		Overloaded:   {apierrors.NewTooManyRequests("wait", 1), true},
		Certificate:  {x509.UnknownAuthorityError{}, true},
		Unreachable:  {errRefused, false},
		Failed:       {apierrors.NewInternalError(errors.New("etcd")), false},
	} {
		if got := ReasonOf(fmt.Errorf("list: %w", c.err)); got != want || got.Lives() != c.lives {
			t.Errorf("%v is %s, lives %v; want %s, %v", c.err, got, got.Lives(), want, c.lives)
		}
	}
}

func TestVerdict(t *testing.T) {
	type call struct {
		after time.Duration // since the call before
		verb  verb
		err   error
		want  string // what is reported: "", "ok" or a Reason
	}
	for name, calls := range map[string][]call{
		"what works is said": {
			{0, verbList, nil, "ok"}, {0, verbWatch, nil, "ok"},
		},
		"a server that cannot be reached is said at once": {
			{0, verbWatch, errRefused, "Unreachable"}, {time.Second, verbWatch, errRefused, "Unreachable"},
		},
		"a refusal counts when it lasts": {
			{0, verbList, errForbidden, ""}, {time.Second, verbList, errForbidden, ""}, {2 * time.Second, verbList, errForbidden, "Forbidden"},
		},
		"a refusal of a server that has just started does not count": {
			{0, verbList, errForbidden, ""}, {time.Second, verbList, nil, "ok"}, {time.Hour, verbList, errForbidden, ""},
		},
		"another reason begins to last anew": {
			{0, verbList, errForbidden, ""}, {4 * time.Second, verbList, apierrors.NewUnauthorized("no"), ""}, {4 * time.Second, verbList, apierrors.NewUnauthorized("no"), "Unauthorized"},
		},
		"a list that works does not hide a watch that is refused": {
			{0, verbWatch, errForbidden, ""}, {0, verbList, nil, ""}, {4 * time.Second, verbWatch, errForbidden, "Forbidden"}, {0, verbList, nil, ""}, {0, verbWatch, nil, "ok"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			now, told := time.Unix(0, 0), ""
			v := &verdict{now: func() time.Time { return now }, report: func(err error) {
				told = "ok"
				if err != nil {
					told = string(ReasonOf(err))
				}
			}}
			for i, c := range calls {
				told, now = "", now.Add(c.after)
				if v.called(c.verb, c.err); told != c.want {
					t.Errorf("call %d reports %q, want %q", i, told, c.want)
				}
			}
		})
	}
}

func TestTransientAnswersAreNoTrouble(t *testing.T) {
	streaming := metav1.ListOptions{SendInitialEvents: new(true)}
	invalid := apierrors.NewInvalid(schema.GroupKind{}, "", nil)
	for name, c := range map[string]struct {
		err     error
		options metav1.ListOptions
		want    bool
	}{
		"an expired version is listed anew":                {apierrors.NewResourceExpired("old"), metav1.ListOptions{}, true},
		"a server that does not know streaming lists":      {invalid, streaming, true},
		"the same answer to a plain list is trouble":       {invalid, metav1.ListOptions{}, false},
		"a refusal is trouble":                             {errForbidden, streaming, false},
		"a server that cannot be reached is trouble":       {errRefused, metav1.ListOptions{}, false},
		"what worked is no trouble, and is no such answer": {nil, streaming, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := transient(c.err, c.options); got != c.want {
				t.Errorf("transient(%v) = %v", c.err, got)
			}
		})
	}
}
