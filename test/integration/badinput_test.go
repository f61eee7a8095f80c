package integration

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// TestBadPeers gives one syncd a good peer and every bad one. Each bad one is one
// clear log line that names the Secret and the remedy, and a metric; nothing else
// suffers; and it heals when the cause goes.
func TestBadPeers(t *testing.T) {
	bed := kubetest.ForTest(t)
	set := start(t, bed, kubetest.ClusterConfig{Name: "hub"}, kubetest.ClusterConfig{Name: "east"}, kubetest.ClusterConfig{Name: "bare"})
	hub, east, bare := set[0], set[1], set[2]
	join(t, hub, east)
	hub.namespace(t, "shop")
	east.namespace(t, "shop")
	hub.addPeer(t, "east", east.peerKubeconfig(t))
	link, err := east.NewLink()
	must(t, err)

	const withExec = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`
	throughLink, err := link.Kubeconfig(east.peerKubeconfig(t))
	must(t, err)
	stranger, err := east.UserKubeconfig("stranger")
	must(t, err)
	bareKubeconfig, err := bare.UserKubeconfig("peer", "system:masters") // may do all: only the CRDs lack
	must(t, err)

	cases := []struct {
		name   string
		id     string // also of the Secret, peer-<id>
		secret map[string][]byte
		// resource and reason of the metric; line are parts of the one log line.
		resource, reason string
		line             []string
		// before makes the cause, heal takes it away.
		before, heal func(*testing.T)
	}{
		{
			name: "a kubeconfig that does not parse", id: "garbled",
			secret:   map[string][]byte{"kubeconfig": []byte("apiVersion: v1\nkind: Config\nclusters: [{{{\n")},
			resource: "secret", reason: "BadKubeconfig", line: []string{"parse kubeconfig", "replace it by one that works"},
		},
		{
			name: "a Secret without the key", id: "keyless",
			secret:   map[string][]byte{"config": east.peerKubeconfig(t)},
			resource: "secret", reason: "NoKubeconfig", line: []string{`no key \"kubeconfig\"`, "put the peer's kubeconfig under the key"},
		},
		{
			name: "a kubeconfig that runs a program", id: "runs",
			secret:   map[string][]byte{"kubeconfig": []byte(withExec)},
			resource: "secret", reason: "ForbiddenForm", line: []string{"has exec", "kubectl config view --raw --flatten"},
		},
		{
			name: "a peer that cannot be reached", id: "away",
			secret:   map[string][]byte{"kubeconfig": throughLink},
			resource: "serviceexports.multicluster.x-k8s.io", reason: "Unreachable", line: []string{"cannot read cluster", "check that the API server runs"},
			before: func(*testing.T) { link.Cut() },
			heal:   func(*testing.T) { link.Restore() },
		},
		{
			name: "a peer that forbids a resource", id: "forbids",
			secret:   map[string][]byte{"kubeconfig": stranger},
			resource: "services", reason: "Forbidden", line: []string{"services", "apply deploy/rbac/peer.yaml in the peer"},
			heal: func(t *testing.T) {
				east.apply(t, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: stranger}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: k8s-mcs-peer}\nsubjects: [{kind: User, name: stranger, apiGroup: rbac.authorization.k8s.io}]\n")
			},
		},
		{
			name: "a peer without the CRDs", id: "bare",
			secret:   map[string][]byte{"kubeconfig": bareKubeconfig},
			resource: "serviceexports.multicluster.x-k8s.io", reason: "Missing", line: []string{"serviceexports.multicluster.x-k8s.io", "install the CRDs"},
			heal: func(t *testing.T) { must(t, bare.InstallCRDs(t.Context())) },
		},
	}
	for _, c := range cases {
		if c.before != nil {
			c.before(t)
		}
		hub.peerSecret(t, "peer-"+c.id, c.id, c.secret)
	}
	syncd := hub.syncd(t)

	t.Run("the good peer is not kept waiting, and the start neither", func(t *testing.T) {
		east.apply(t, service("shop", "web", httpService), slice("shop", "web", "web-1", "[{name: http, port: 8080}]", "10.1.0.1"), export("shop", "web"))
		eventually(t, "its endpoints", func() error {
			return hub.wantMirrored(t, "shop", "web", map[string]string{"east": "10.1.0.1"})
		})
		if status, body := syncd.get(t, "/readyz"); status != http.StatusOK {
			t.Errorf("/readyz is %d %s", status, body)
		}
	})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			metric := fmt.Sprintf("mcs_syncd_problem{cluster=%q,reason=%q,resource=%q,secret=%q} 1", c.id, c.reason, c.resource, "k8s-mcs/peer-"+c.id)
			eventually(t, "the metric", func() error { return syncd.metric(t, metric) })
			parts := append([]string{`"level":"ERROR"`, `"secret":"k8s-mcs/peer-` + c.id + `"`, `"reason":"` + c.reason + `"`, `"remedy":"`}, c.line...)
			if lines := logLines(syncd.Log(), parts...); len(lines) != 1 {
				t.Errorf("%d log lines with %q:\n%s", len(lines), parts, grep(syncd.Log(), "peer-"+c.id))
			}
			if c.heal != nil {
				c.heal(t)
			} else {
				hub.addPeer(t, c.id, east.peerKubeconfig(t))
			}
			eventually(t, "a synced peer", func() error {
				return syncd.metric(t, fmt.Sprintf("mcs_syncd_peer_state{cluster=%q,state=%q} 1", c.id, "Synced"))
			})
			if err := syncd.metric(t, metric); err == nil {
				t.Errorf("the metric still stands: %s", metric)
			}
			if lines := logLines(syncd.Log(), parts...); len(lines) != 1 {
				t.Errorf("%d log lines after all: %s", len(lines), strings.Join(lines, "\n"))
			}
		})
	}
	t.Run("a Secret with our own id, and the younger of two with one id, are refused", func(t *testing.T) {
		hub.peerSecret(t, "mirror", "hub", map[string][]byte{"kubeconfig": east.peerKubeconfig(t)})
		hub.peerSecret(t, "z-second-east", "east", map[string][]byte{"kubeconfig": bareKubeconfig})
		for secret, reason := range map[string]string{"mirror": "OwnID", "z-second-east": "DuplicateID"} {
			eventually(t, "the metric", func() error {
				return syncd.metric(t, fmt.Sprintf("mcs_syncd_problem{cluster=%q,reason=%q,resource=%q,secret=%q} 1", "", reason, "secret", "k8s-mcs/"+secret))
			})
			if lines := logLines(syncd.Log(), `"level":"ERROR"`, `"secret":"k8s-mcs/`+secret+`"`, `"remedy":"`); len(lines) != 1 {
				t.Errorf("%d log lines of %s", len(lines), secret)
			}
		}
		if got := hub.mirrored(t, "shop", "web")["east"]; len(got) != 1 {
			t.Errorf("endpoints of the good peer are %v", got)
		}
	})
	t.Run("a removed Secret takes all that came from its peer, without a call to it", func(t *testing.T) {
		must(t, hub.kube.CoreV1().Secrets("k8s-mcs").Delete(t.Context(), "z-second-east", metav1.DeleteOptions{}))
		for _, id := range []string{"garbled", "keyless", "runs", "away", "forbids", "east"} {
			must(t, hub.kube.CoreV1().Secrets("k8s-mcs").Delete(t.Context(), "peer-"+id, metav1.DeleteOptions{}))
		}
		eventually(t, "nothing of east", func() error {
			if _, err := hub.mcs.MulticlusterV1beta1().ServiceImports("shop").Get(t.Context(), "web", metav1.GetOptions{}); err == nil {
				return errors.New("the import is there")
			}
			return hub.wantMirrored(t, "shop", "web", map[string]string{})
		})
	})
}

// TestOwnClusterIsNotReady starts syncd where its CRDs lack and its role too.
func TestOwnClusterIsNotReady(t *testing.T) {
	bed := kubetest.ForTest(t)
	hub := start(t, bed, kubetest.ClusterConfig{Name: "hub"})[0]
	syncd := hub.syncd(t)
	unready := func(part string) {
		t.Helper()
		eventually(t, "/readyz that names "+part, func() error {
			if status, body := syncd.get(t, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, part) {
				return fmt.Errorf("/readyz is %d %s", status, body)
			}
			return nil
		})
	}
	unready("services")
	eventually(t, "a line that names the role", func() error {
		return oneLine(syncd.Log(), `"level":"ERROR"`, `"resource":"services"`, `"reason":"Forbidden"`, "apply deploy/rbac/syncd.yaml")
	})
	if status, _ := syncd.get(t, "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz is %d", status)
	}
	hub.applyRoles(t)
	unready("serviceimports")
	eventually(t, "a line that names the CRDs", func() error {
		return oneLine(syncd.Log(), `"level":"ERROR"`, `"resource":"serviceimports.multicluster.x-k8s.io"`, `"reason":"Missing"`, "install the CRDs")
	})
	must(t, hub.InstallCRDs(t.Context()))
	eventually(t, "readiness", func() error {
		if status, body := syncd.get(t, "/readyz"); status != http.StatusOK {
			return fmt.Errorf("/readyz is %d %s", status, body)
		}
		return nil
	})
	select {
	case <-syncd.Exited():
		t.Error("syncd ended")
	default:
	}
}

// TestPeerAway kills a peer's API server: nothing changes here, not even by a
// restart of syncd, and what changes there arrives once it is back.
func TestPeerAway(t *testing.T) {
	set := clusterset(t, "hub", "east")
	hub, east := set[0], set[1]
	hub.namespace(t, "shop")
	east.namespace(t, "shop")
	hub.addPeer(t, "east", east.peerKubeconfig(t))
	syncd := hub.syncd(t)
	east.apply(t,
		service("shop", "web", httpService), slice("shop", "web", "web-1", "[{name: http, port: 8080}]", "10.1.0.1"), export("shop", "web"),
		service("shop", "db", "{clusterIP: None, ports: [{name: sql, port: 5432}]}"), slice("shop", "db", "db-1", "[{name: sql, port: 5432}]", "10.1.0.9"), export("shop", "db"))
	there := func() error {
		for name, address := range map[string]string{"web": "10.1.0.1", "db": "10.1.0.9"} {
			if err := hub.wantMirrored(t, "shop", name, map[string]string{"east": address}); err != nil {
				return err
			}
			imp, err := hub.mcs.MulticlusterV1beta1().ServiceImports("shop").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := readyWith(imp, "east"); err != nil {
				return err
			}
		}
		return nil
	}
	eventually(t, "both services", there)
	before := writesOnceQuiet(t, hub, syncdUser)

	must(t, east.Kill())
	const unreachable = `mcs_syncd_problem{cluster="east",reason="Unreachable"`
	eventually(t, "the metric", func() error { return syncd.metric(t, unreachable) })
	must(t, syncd.Stop(t.Context()))
	syncd = hub.syncd(t)
	eventually(t, "readiness without the peer", func() error {
		if status, body := syncd.get(t, "/readyz"); status != http.StatusOK {
			return fmt.Errorf("/readyz is %d %s", status, body)
		}
		return syncd.metric(t, unreachable)
	})
	if after := writesOnceQuiet(t, hub, syncdUser); len(after) != len(before) {
		t.Errorf("%d writes while the peer is away: %v", len(after)-len(before), after[len(before):])
	}
	must(t, there())

	must(t, east.Start(t.Context()))
	east.apply(t, slice("shop", "web", "web-1", "[{name: http, port: 8080}]", "10.1.0.1", "10.1.0.2"))
	eventually(t, "the change", func() error {
		return hub.wantMirrored(t, "shop", "web", map[string]string{"east": "10.1.0.1,10.1.0.2"})
	})
	eventually(t, "no problem any more", func() error {
		if syncd.metric(t, unreachable) == nil {
			return fmt.Errorf("metric %s", unreachable)
		}
		return nil
	})
}

// TestNamespaceGoesAndComes deletes the importing namespace: the exporters need
// not do anything for it to come back.
func TestNamespaceGoesAndComes(t *testing.T) {
	bed := kubetest.ForTest(t)
	set := start(t, bed, kubetest.ClusterConfig{Name: "hub", Controllers: true}, kubetest.ClusterConfig{Name: "east"})
	hub, east := set[0], set[1]
	join(t, hub, east)
	east.namespace(t, "shop")
	hub.addPeer(t, "east", east.peerKubeconfig(t))
	syncd := hub.syncd(t)
	east.apply(t, service("shop", "web", httpService), slice("shop", "web", "web-1", "[{name: http, port: 8080}]", "10.1.0.1"), export("shop", "web"))
	eventually(t, "the peer read", func() error { return syncd.metric(t, `mcs_syncd_peer_exports{cluster="east"} 1`) })

	for range 2 {
		hub.namespace(t, "shop")
		eventually(t, "the import", func() error {
			imp, err := hub.mcs.MulticlusterV1beta1().ServiceImports("shop").Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := readyWith(imp, "east"); err != nil {
				return err
			}
			return hub.wantMirrored(t, "shop", "web", map[string]string{"east": "10.1.0.1"})
		})
		must(t, hub.kube.CoreV1().Namespaces().Delete(t.Context(), "shop", metav1.DeleteOptions{}))
		eventually(t, "the namespace gone", func() error {
			if _, err := hub.kube.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{}); err == nil {
				return errors.New("it is there")
			}
			return nil
		})
	}
	if lines := logLines(syncd.Log(), `"level":"ERROR"`); len(lines) > 0 {
		t.Errorf("a namespace that goes is no error:\n%s", strings.Join(lines, "\n"))
	}
}

func oneLine(log string, parts ...string) error {
	if lines := logLines(log, parts...); len(lines) != 1 {
		return fmt.Errorf("%d lines with %q", len(lines), parts)
	}
	return nil
}
