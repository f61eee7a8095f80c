package tamper

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Proxy is a misbehaving way to API servers. It listens on loopback with TLS and
// a certificate of its own, and may be used by several goroutines. Without rules
// it changes nothing.
type Proxy struct {
	server *httptest.Server

	mu      sync.Mutex    // guards the fields below
	rules   []*Added      // in the order of Add; a slice is never changed in place
	changed chan struct{} // closed, and made anew, when rules change
	users   map[string]*user
	streams map[*stream]struct{}
}

// user is one identity at one API server.
type user struct {
	target    *url.URL
	transport http.RoundTripper // with the user's credential
	direct    *httputil.ReverseProxy
}

// New starts a proxy that knows no API server yet.
func New() *Proxy {
	p := &Proxy{changed: make(chan struct{}), users: map[string]*user{}, streams: map[*stream]struct{}{}}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.server.EnableHTTP2 = true
	p.server.StartTLS()
	return p
}

// ForTest is New for one test, closed when the test ends.
func ForTest(t testing.TB) *Proxy {
	t.Helper()
	p := New()
	t.Cleanup(p.Close)
	return p
}

// Close ends every request and the proxy.
func (p *Proxy) Close() {
	p.server.CloseClientConnections()
	p.server.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.users {
		if idle, ok := u.transport.(interface{ CloseIdleConnections() }); ok {
			idle.CloseIdleConnections()
		}
	}
}

// Kubeconfig makes a kubeconfig that leads through the proxy to the API server of
// the given one, as the same user: the proxy keeps the credential, and knows the
// user again by a token. All is in the file, as a peer Secret needs it.
func (p *Proxy) Kubeconfig(kubeconfig []byte) ([]byte, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	u := &user{}
	if u.target, err = url.Parse(config.Host); err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	if u.transport, err = rest.TransportFor(config); err != nil {
		return nil, fmt.Errorf("make client for %s: %w", config.Host, err)
	}
	u.direct = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(u.target); r.Out.Header.Del("Authorization") },
		Transport:     u.transport,
		FlushInterval: -1, // at once
	}
	p.mu.Lock()
	token := "tamper-" + strconv.Itoa(len(p.users))
	p.users[token] = u
	p.mu.Unlock()

	const name = "tampered"
	made := clientcmdapi.NewConfig()
	made.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   p.server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw}),
	}
	made.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	made.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	made.CurrentContext = name
	content, err := clientcmd.Write(*made)
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return content, nil
}

// Disconnect breaks live watches, as a network does. Clients ask again.
func (p *Proxy) Disconnect(m Match) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.streams {
		if m.Resource == "" || m.Resource == s.resource {
			s.cancel()
		}
	}
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	u := p.users[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	p.mu.Unlock()
	if u == nil {
		answer(w, failure(http.StatusUnauthorized, metav1.StatusReasonUnauthorized))
		return
	}
	q, ok := parse(r)
	if !ok {
		u.direct.ServeHTTP(w, r)
		return
	}
	if !p.admit(w, r, q) {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	response, err := u.get(ctx, r)
	if err != nil {
		panic(http.ErrAbortHandler) // the client sees a broken connection, as without a proxy
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode != http.StatusOK:
		pass(w, response)
	case q.watch:
		p.watch(ctx, w, &stream{resource: q.resource, cancel: cancel, verb: q.begins()}, response.Body)
	default:
		p.list(w, q, response.Body)
	}
}

// admit applies the rules on whole requests; false means that the client has had
// its answer, or has gone.
func (p *Proxy) admit(w http.ResponseWriter, r *http.Request, q request) bool {
	counted := map[*Added]bool{}
	for {
		rules, changed := p.snapshot()
		if q.rest {
			answer(w, failure(http.StatusInternalServerError, metav1.StatusReasonInternalError))
			return false
		}
		kinds := []kind{kindHang, kindRefuse}
		if q.streaming {
			kinds = append(kinds, kindNoStreamingLists, kindFirstPage)
		}
		rule := onRequest(rules, q.resource, q.begins(), kinds...)
		switch {
		case rule == nil:
			return true
		case rule.Effect.kind != kindHang:
			if !rule.use() {
				continue
			}
			answer(w, rule.Effect.status)
			return false
		case !counted[rule]:
			counted[rule] = true
			rule.use()
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return false
		}
	}
}

// get asks the API server for the same as JSON.
func (u *user) get(ctx context.Context, r *http.Request) (*http.Response, error) {
	target := *r.URL
	target.Scheme, target.Host = u.target.Scheme, u.target.Host
	request := r.Clone(ctx)
	request.URL, request.Host, request.RequestURI = &target, "", ""
	request.Header.Del("Authorization")
	request.Header.Del("Accept-Encoding") // the transport's own is undone by itself
	request.Header.Set("Accept", "application/json")
	return u.transport.RoundTrip(request)
}

// pass hands an answer on as it is.
func pass(w http.ResponseWriter, response *http.Response) {
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	if _, err := io.Copy(w, response.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// answer sends a Status as the whole answer.
func answer(w http.ResponseWriter, status metav1.Status) {
	body, err := json.Marshal(status)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(body) // a client that has gone needs no answer
}
