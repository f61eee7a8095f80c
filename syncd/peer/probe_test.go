package peer

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/k8s-mcs/k8s-mcs/internal/watch"
)

// server is an API server that answers each probe in one way.
func server(t *testing.T, answer http.HandlerFunc) *rest.Config {
	t.Helper()
	s := httptest.NewUnstartedServer(answer)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return &rest.Config{Host: s.URL, BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

func TestOnlySilenceAndServerErrorsAgeAPeer(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		spoil  func(*rest.Config)
		ages   bool
		reason watch.Reason // of a refusal
	}{
		"an answer":              {answer: status(200)},
		"401":                    {answer: status(401), reason: watch.Unauthorized},
		"403":                    {answer: status(403), reason: watch.Forbidden},
		"404":                    {answer: status(404), reason: watch.Missing},
		"429":                    {answer: status(429), reason: watch.Overloaded},
		"a redirect":             {answer: status(302), reason: watch.Failed},
		"a version of the past":  {answer: status(410)},
		"500":                    {answer: status(500), ages: true},
		"502 of a load balancer": {answer: status(502), ages: true},
		"503":                    {answer: status(503), ages: true},
		"504":                    {answer: status(504), ages: true},
		"no answer":              {answer: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, ages: true},
		"an answer broken off":   {answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, ages: true},
		"nobody there":           {answer: status(200), spoil: func(c *rest.Config) { c.Host = "https://127.0.0.1:1" }, ages: true},
		"another certificate":    {answer: status(200), spoil: func(c *rest.Config) { c.ServerName = "elsewhere.example" }, reason: watch.Certificate},
		"a server without TLS":   {answer: status(200), spoil: plain(t), reason: watch.Certificate},
	} {
		t.Run(name, func(t *testing.T) {
			config := server(t, c.answer)
			if c.spoil != nil {
				c.spoil(config)
			}
			probe, err := NewProbe(config)
			if err != nil {
				t.Fatal(err)
			}
			var l life
			now := time.Now()
			for range settled {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				date, err := probe(ctx)
				cancel()
				l.probed(now, now, date, err, "role.yaml")
			}
			alive, failed := l.times()
			if ages := alive.IsZero() && !failed.IsZero(); ages != c.ages {
				t.Errorf("ages: %v, want %v", ages, c.ages)
			}
			refusal := l.refuses()
			if (refusal != nil) != (c.reason != "") || refusal != nil && (refusal.Reason != string(c.reason) || refusal.Remedy == "") {
				t.Errorf("refusal is %+v, want %s", refusal, c.reason)
			}
		})
	}
}

func plain(t *testing.T) func(*rest.Config) {
	return func(c *rest.Config) {
		s := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(s.Close)
		c.Host = strings.Replace(s.URL, "http:", "https:", 1)
	}
}

func TestAnOlderVersionIsAskedForWhereThereIsNoNewer(t *testing.T) {
	asked := map[string]int{}
	config := server(t, func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.Path]++
		if !strings.Contains(r.URL.Path, "/v1alpha1/") {
			w.WriteHeader(http.StatusNotFound)
		}
		if r.URL.RawQuery != "limit=1&resourceVersion=0" || r.Header.Get("Authorization") != "Bearer t" {
			t.Errorf("asked for %s with %v", r.URL, r.Header)
		}
	})
	probe, err := NewProbe(config)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := probe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if asked["/apis/multicluster.x-k8s.io/v1beta1/serviceexports"] != 1 || asked["/apis/multicluster.x-k8s.io/v1alpha1/serviceexports"] != 3 {
		t.Errorf("asked for %v", asked)
	}
}

func TestOneRefusalIsNone(t *testing.T) {
	codes := []int{403, 200, 403, 403}
	config := server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(codes[0]) })
	probe, err := NewProbe(config)
	if err != nil {
		t.Fatal(err)
	}
	var l life
	now := time.Now()
	for _, want := range []bool{false, false, false, true} {
		date, err := probe(t.Context())
		l.probed(now, now, date, err, "role.yaml")
		if got := l.refuses() != nil; got != want {
			t.Errorf("%v left: refused %v, want %v", codes, got, want)
		}
		codes = codes[1:]
	}
}

func TestTheClockOfAPeerIsRead(t *testing.T) {
	config := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
	})
	probe, err := NewProbe(config)
	if err != nil {
		t.Fatal(err)
	}
	var l life
	start := time.Now()
	date, err := probe(t.Context())
	_, skew := l.probed(start, time.Now(), date, err, "role.yaml")
	if err != nil || (skew+time.Hour).Abs() > 5*time.Second || l.clockSkew() != skew {
		t.Errorf("skew is %s, %v", skew, err)
	}
}

func TestCredentialOfServerAndToken(t *testing.T) {
	config := server(t, http.NotFound)
	whole := map[string][]byte{"server": []byte("https://east.example:6443\n"), "ca.crt": config.CAData, "token": []byte("secret-token\n")}
	for name, c := range map[string]struct {
		key, value string
		say        string // empty when it is good
	}{
		"all three keys":              {"namespace", "k8s-mcs", ""},
		"no token":                    {"token", "", "no key token"},
		"no certificate authority":    {"ca.crt", " ", "no key ca.crt"},
		"no server":                   {"server", "", "no key server"},
		"a server in the clear":       {"server", "http://east.example", "in the clear"},
		"a server that is no address": {"server", "east.example:6443", "is not https://host:port"},
		"an authority that is no PEM": {"ca.crt", "Y2E=", "no PEM certificate"},
		"a kubeconfig comes first":    {"kubeconfig", "{{{", "parse kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			data := maps.Clone(whole)
			data[c.key] = []byte(c.value)
			got, err := Credential(&corev1.Secret{Data: data})
			if c.say == "" {
				if err != nil || got.Host != "https://east.example:6443" || got.BearerToken != "secret-token" {
					t.Errorf("config is %v, %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.say) {
				t.Errorf("error is %v, want %q", err, c.say)
			}
		})
	}
}
