package peer

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

const goodKubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://east.example:6443", certificate-authority-data: Y2E=}}]
users: [{name: u, user: {token: secret-token}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func TestCredential(t *testing.T) {
	for name, c := range map[string]struct {
		kubeconfig string
		reason     string // empty when it is good
		say        string
	}{
		"a token and a CA as data":       {goodKubeconfig, "", ""},
		"nothing":                        {"", "NoKubeconfig", "no key"},
		"no YAML":                        {"{{{", "BadKubeconfig", "parse kubeconfig"},
		"an empty document":              {"{}", "BadKubeconfig", "parse kubeconfig"},
		"a context that is not there":    {strings.Replace(goodKubeconfig, "current-context: x", "current-context: elsewhere", 1), "BadKubeconfig", "elsewhere"},
		"a program":                      {strings.Replace(goodKubeconfig, "token: secret-token", "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}", 1), "ForbiddenForm", `user "u" has exec`},
		"an auth provider":               {strings.Replace(goodKubeconfig, "token: secret-token", "auth-provider: {name: gcp}", 1), "ForbiddenForm", "has auth-provider"},
		"a token file":                   {strings.Replace(goodKubeconfig, "token: secret-token", "tokenFile: /etc/passwd", 1), "ForbiddenForm", "has tokenFile"},
		"a key file":                     {strings.Replace(goodKubeconfig, "token: secret-token", "client-key: /k, client-certificate: /c", 1), "ForbiddenForm", "has client-certificate"},
		"a CA file":                      {strings.Replace(goodKubeconfig, "certificate-authority-data: Y2E=", "certificate-authority: /ca", 1), "ForbiddenForm", `cluster "c" has certificate-authority`},
		"a program of a user not in use": {strings.Replace(goodKubeconfig, "users: [", "users: [{name: v, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}}}, ", 1), "ForbiddenForm", `user "v" has exec`},
	} {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{"kubeconfig": []byte(c.kubeconfig)}
			config, err := Credential(&corev1.Secret{Data: data})
			if c.reason == "" {
				if err != nil || config.Host != "https://east.example:6443" || config.BearerToken != "secret-token" {
					t.Errorf("config is %v, %v", config, err)
				}
				return
			}
			refused, ok := errors.AsType[*CredentialError](err)
			if !ok || refused.Reason != c.reason || refused.Remedy == "" || !strings.Contains(err.Error(), c.say) {
				t.Errorf("error is %v, want %s with %q", err, c.reason, c.say)
			}
		})
	}
}

func FuzzCredential(f *testing.F) {
	f.Add([]byte(goodKubeconfig))
	f.Add([]byte("users: [{user: {exec: {}}}]"))
	f.Add([]byte("{{{"))
	f.Fuzz(func(t *testing.T, kubeconfig []byte) {
		config, err := Credential(&corev1.Secret{Data: map[string][]byte{"kubeconfig": kubeconfig}})
		if err != nil {
			if _, ok := errors.AsType[*CredentialError](err); !ok {
				t.Fatalf("error without a remedy: %v", err)
			}
			return
		}
		if config.ExecProvider != nil || config.AuthProvider != nil || config.BearerTokenFile != "" ||
			config.CAFile != "" || config.CertFile != "" || config.KeyFile != "" {
			t.Fatalf("runs a program or reads a file: %q", kubeconfig)
		}
	})
}

func TestEveryReasonHasARemedy(t *testing.T) {
	exports := schema.GroupResource{Group: "multicluster.x-k8s.io", Resource: "serviceexports"}
	for say, err := range map[string]error{
		"apply role.yaml":      apierrors.NewForbidden(exports, "", errors.New("no")),
		"renew the credential": apierrors.NewUnauthorized("no"),
		"install the CRDs":     apierrors.NewNotFound(exports, ""),
		"certificate":          x509.UnknownAuthorityError{},
		"API server runs":      &net.OpError{Op: "dial", Err: errors.New("connection refused")},
		"asks to wait":         apierrors.NewTooManyRequests("wait", 1),
		"tried again":          apierrors.NewInternalError(errors.New("etcd")),
	} {
		if p := classify("serviceexports", fmt.Errorf("list: %w", err), "role.yaml"); !strings.Contains(p.Remedy, say) {
			t.Errorf("%v: the remedy %q lacks %q", err, p.Remedy, say)
		}
	}
}

func TestHealthTellsOfEachProblemOnce(t *testing.T) {
	var told []string
	h := newHealth(
		func(p Problem) { told = append(told, "+"+p.Reason+" "+p.Resource) },
		func(p Problem) { told = append(told, "-"+p.Reason+" "+p.Resource) },
	)
	problem := func(reason watch.Reason, resource string) *Problem {
		return &Problem{Reason: string(reason), Resource: resource}
	}
	for _, step := range []struct {
		resource string
		problem  *Problem
		want     string
	}{
		{"services", nil, ""},
		{"services", problem(watch.Unreachable, "services"), "+Unreachable services"},
		{"services", problem(watch.Unreachable, "services"), ""},
		{"slices", problem(watch.Unreachable, "slices"), ""}, // the same server
		{"services", nil, ""}, // another resource still says so
		{"slices", problem(watch.Forbidden, "slices"), "-Unreachable slices +Forbidden slices"},
		{"services", problem(watch.Forbidden, "services"), "+Forbidden services"}, // a right of its own
		{"slices", nil, "-Forbidden slices"},
		{"services", nil, "-Forbidden services"},
	} {
		told = nil
		h.set(step.resource, step.problem)
		if got := strings.Join(told, " "); got != step.want {
			t.Errorf("%s %v: told %q, want %q", step.resource, step.problem, got, step.want)
		}
	}
	if left := h.all(); len(left) > 0 {
		t.Errorf("problems left: %v", left)
	}
}

func TestSecretsGetTheirClusterID(t *testing.T) {
	secret := func(name, id string, age int) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "k8s-mcs", Name: name, Labels: map[string]string{mcs.LabelPeer: id},
			CreationTimestamp: metav1.NewTime(time.Unix(1000-int64(age), 0)),
		}}
	}
	winners, refused := assign([]*corev1.Secret{
		secret("a-younger", "east", 1), secret("z-older", "east", 2), secret("us", "hub", 3),
		secret("bad", "East_1", 4), secret("west", "west.eu", 5),
		secret("in-use", "north", 1), secret("relabelled", "north", 9),
	}, "hub", map[mcs.ClusterID]string{"north": "k8s-mcs/in-use"})
	got := map[mcs.ClusterID]string{}
	for id, s := range winners {
		got[id] = s.Name
	}
	if diff := cmp.Diff(map[mcs.ClusterID]string{"east": "z-older", "west.eu": "west", "north": "in-use"}, got); diff != "" {
		t.Error(diff)
	}
	reasons := map[string]string{}
	for name, p := range refused {
		reasons[name] = p.Reason
	}
	if diff := cmp.Diff(map[string]string{"k8s-mcs/a-younger": "DuplicateID", "k8s-mcs/relabelled": "DuplicateID", "k8s-mcs/us": "OwnID", "k8s-mcs/bad": "BadID"}, reasons); diff != "" {
		t.Error(diff)
	}
}

func TestConvertSlice(t *testing.T) {
	slice := func(change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"kubernetes.io/service-name": "web"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}}},
		}
		change(s)
		return s
	}
	for name, c := range map[string]struct {
		change  func(*discoveryv1.EndpointSlice)
		allows  func(netip.Addr) bool
		keep    bool
		dropped string
		expect  func(model.Slice) bool
	}{
		"missing conditions mean ready, serving and not terminating": {
			change: func(*discoveryv1.EndpointSlice) {}, keep: true,
			expect: func(s model.Slice) bool {
				e := s.Endpoints[0]
				return e.Ready && e.Serving && !e.Terminating && s.Ports[0].Protocol == "TCP"
			},
		},
		"a missing serving is what ready is": {
			change: func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = new(false) }, keep: true,
			expect: func(s model.Slice) bool { return !s.Endpoints[0].Ready && !s.Endpoints[0].Serving },
		},
		"a slice that syncd mirrored is no source": {
			change: func(s *discoveryv1.EndpointSlice) { s.Labels[mcs.LabelSliceManagedBy] = mcs.ManagedBy },
		},
		"a slice that another MCS controller mirrored is no source": {
			change: func(s *discoveryv1.EndpointSlice) {
				s.Labels[mcs.LabelSourceCluster], s.Labels[mcs.LabelSliceManagedBy] = "west", "another.example"
			},
		},
		"a forged origin is not believed, and the slice stays that of its Service": {
			change: func(s *discoveryv1.EndpointSlice) {
				s.Labels[mcs.LabelSourceCluster], s.Labels[mcs.LabelServiceName] = "forged", "other"
			}, keep: true,
			expect: func(s model.Slice) bool { return len(s.Endpoints) == 1 },
		},
		"a slice of no Service is no source": {
			change: func(s *discoveryv1.EndpointSlice) { s.Labels = nil },
		},
		"host names are no addresses": {
			change: func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN },
		},
		"a bad address goes and its neighbour stays": {
			change: func(s *discoveryv1.EndpointSlice) {
				s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"169.254.20.5"}})
			}, keep: true, dropped: "shop/web-1 169.254.20.5 a link-local address",
			expect: func(s model.Slice) bool { return len(s.Endpoints) == 1 },
		},
		"an address that is not on the list goes": {
			change: func(*discoveryv1.EndpointSlice) {}, keep: true, allows: func(netip.Addr) bool { return false },
			dropped: "shop/web-1 10.1.0.1 outside of k8s-mcs.io/allow-cidrs",
			expect:  func(s model.Slice) bool { return len(s.Endpoints) == 0 },
		},
		"an address of another family goes": {
			change: func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "fd00::1" }, keep: true,
			dropped: "shop/web-1 fd00::1 of another family than the slice",
			expect:  func(s model.Slice) bool { return len(s.Endpoints) == 0 },
		},
		"a word is no address": {
			change: func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "store.example" }, keep: true,
			dropped: "shop/web-1 store.example not an IP address",
			expect:  func(s model.Slice) bool { return len(s.Endpoints) == 0 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			var dropped string
			key, got, keep := convertSlice(slice(c.change), c.allows, func(slice, address, reason string) {
				dropped += slice + " " + address + " " + reason
			})
			if keep != c.keep || dropped != c.dropped {
				t.Fatalf("keep %v, dropped %q", keep, dropped)
			}
			if keep && (key != mcs.ServiceKey{Namespace: "shop", Name: "web"} || !c.expect(got)) {
				t.Errorf("%s: %+v", key, got)
			}
		})
	}
}

func TestConvertService(t *testing.T) {
	_, got, _ := convertService(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.1", Type: corev1.ServiceTypeLoadBalancer,
			Ports:                 []corev1.ServicePort{{Name: "http", Protocol: "TCP", Port: 80, AppProtocol: new("http")}},
			SessionAffinity:       corev1.ServiceAffinityClientIP,
			SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(60))}},
			InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyLocal),
			TrafficDistribution:   new("PreferClose"),
			IPFamilies:            []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol},
		},
	})
	want := model.Source{
		Ports:    []model.Port{{Name: "http", Protocol: "TCP", Number: 80, AppProtocol: "http"}},
		Traffic:  model.Traffic{SessionAffinity: "ClientIP", AffinityTimeout: 60, InternalTrafficPolicy: "Local", TrafficDistribution: "PreferClose"},
		Families: []model.Family{model.IPv6, model.IPv4},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, s := range map[string]*corev1.Service{
		"headless":     {Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}},
		"externalname": {Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}},
		"derived":      {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{mcs.LabelManagedBy: mcs.ManagedBy}}},
	} {
		_, got, _ := convertService(s)
		if got.Headless != (name == "headless") || got.ExternalName != (name == "externalname") || got.Derived != (name == "derived") {
			t.Errorf("%s Service is %+v", name, got)
		}
	}
}
