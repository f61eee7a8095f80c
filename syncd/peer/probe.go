package peer

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/k8s-mcs/k8s-mcs/internal/watch"
)

// Probe asks a peer's API server for something small and returns the date that it
// gives, zero for none. It ends with ctx.
type Probe func(ctx context.Context) (date time.Time, err error)

// probed is the resource that a probe asks for.
var probed = schema.GroupResource{Group: "multicluster.x-k8s.io", Resource: "serviceexports"}

// probeVersions are those that a peer may serve, the newer first.
var probeVersions = []string{"v1beta1", "v1alpha1"}

// NewProbe makes a Probe with a connection of its own: one that is dead is told
// from one that is busy with the watches.
func NewProbe(config *rest.Config) (Probe, error) {
	config = rest.CopyConfig(config)
	config.Dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	var served atomic.Int32 // the index of the version that was there
	return func(ctx context.Context) (time.Time, error) {
		at := int(served.Load())
		date, err := probe(ctx, client, base, probeVersions[at])
		if apierrors.IsNotFound(err) {
			other := 1 - at
			if date, err := probe(ctx, client, base, probeVersions[other]); err == nil {
				served.Store(int32(other)) //nolint:gosec // 0 or 1
				return date, nil
			}
		}
		return date, err
	}, nil
}

func probe(ctx context.Context, client *http.Client, base *url.URL, version string) (time.Time, error) {
	target := base.JoinPath("apis", probed.Group, version, probed.Resource)
	target.RawQuery = "limit=1&resourceVersion=0"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return time.Time{}, fmt.Errorf("probe: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return time.Time{}, fmt.Errorf("probe: %w", err)
	}
	defer response.Body.Close()
	// From its cache a server sends all objects, whatever the limit; the beginning
	// is enough.
	head, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err != nil {
		return time.Time{}, fmt.Errorf("probe: %w", err)
	}
	date, _ := http.ParseTime(response.Header.Get("Date"))
	if response.StatusCode != http.StatusOK {
		var status metav1.Status
		if err := json.Unmarshal(head, &status); err != nil || status.Message == "" {
			status.Message = http.StatusText(response.StatusCode)
		}
		err := apierrors.NewGenericServerResponse(response.StatusCode, "list", probed, "", status.Message, 0, false)
		return date, fmt.Errorf("probe: %w", err)
	}
	return date, nil
}

// refuses reports whether an error is the word of a living API server: anything
// but silence and 5xx.
func refuses(err error) bool {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status.ErrStatus.Code < http.StatusInternalServerError
	}
	return reasonOf(err).Lives()
}

// reasonOf is watch.ReasonOf that also knows a TLS handshake that one of the two
// sides broke off: somebody is there.
func reasonOf(err error) watch.Reason {
	var (
		alert  tls.AlertError
		record tls.RecordHeaderError
		verify *tls.CertificateVerificationError
	)
	if errors.As(err, &alert) || errors.As(err, &record) || errors.As(err, &verify) || errors.Is(err, http.ErrSchemeMismatch) {
		return watch.Certificate
	}
	return watch.ReasonOf(err)
}

// skewLimit is how far a peer's clock may be from ours before it is told: the
// times of exports decide precedence, and are not corrected.
const skewLimit = 5 * time.Minute

// life is what proves that a peer's API server lives, and what speaks against it.
type life struct {
	mu      sync.Mutex // guards the fields below
	alive   time.Time  // the last proof
	failed  time.Time  // the last probe without one
	refusal *Problem   // what the last probe was refused, nil for nothing
	refused int        // how often in a row
	skew    time.Duration
}

// beat takes in a proof of life.
func (l *life) beat(now time.Time) {
	l.mu.Lock()
	l.alive = now
	l.mu.Unlock()
}

// settled is how many probes in a row must be refused before it counts: an API
// server that has just started refuses at first.
const settled = 2

// probed takes in the outcome of a probe that was sent at start; role is the
// manifest that grants it. It returns the clock skew before and now.
func (l *life) probed(start, now, date time.Time, err error, role string) (before, skew time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil, apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		l.alive, l.refusal, l.refused = now, nil, 0
	case refuses(err):
		l.alive = now
		if l.refused++; l.refused >= settled {
			p := classify(probed.String(), err, role)
			l.refusal = &p
		}
	default:
		l.failed = now
	}
	before = l.skew
	if !date.IsZero() {
		l.skew = date.Sub(start.Add(now.Sub(start) / 2)).Round(time.Second)
	}
	return before, l.skew
}

// pulse is a reader of a watch for which every event is a proof of life.
type pulse struct{ life *life }

// Add, Update, Delete, Replace and Resync implement cache.ReflectorStore.
func (p pulse) Add(any) error               { p.life.beat(time.Now()); return nil }
func (p pulse) Update(any) error            { p.life.beat(time.Now()); return nil }
func (p pulse) Delete(any) error            { p.life.beat(time.Now()); return nil }
func (p pulse) Replace([]any, string) error { p.life.beat(time.Now()); return nil }
func (p pulse) Resync() error               { return nil }

// probe asks the cluster for a sign of life until ctx ends.
func (c *Cluster) probe(ctx context.Context) {
	interval := c.options.Peer.ProbeInterval
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		start := time.Now()
		asking, cancel := context.WithTimeout(ctx, interval*3/5)
		date, err := c.options.Peer.Probe(asking)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if before, skew := c.life.probed(start, time.Now(), date, err, c.options.Role); (before.Abs() > skewLimit) != (skew.Abs() > skewLimit) {
			if skew.Abs() > skewLimit {
				c.options.Log.Warn("clock of peer is wrong, or ours", "skew", skew.String(), "remedy", "synchronise the clocks: the age of exports decides which cluster's fields count")
			} else {
				c.options.Log.Info("clock of peer is right again", "skew", skew.String())
			}
		}
		if err != nil && !refuses(err) {
			c.Report(probeResource, err)
		} else {
			c.Report(probeResource, nil)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// probeResource is the name of the probe among the resources that have problems.
const probeResource = "probe"

// times are the last proof of life and the last probe without one.
func (l *life) times() (alive, failed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.alive, l.failed
}

// refuses is what probes are refused, nil for nothing.
func (l *life) refuses() *Problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusal
}

// clockSkew is how far the peer's clock is ahead of ours.
func (l *life) clockSkew() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.skew
}
