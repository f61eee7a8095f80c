package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// clusterPropertyCRD is the least that KEP-2149 needs.
const clusterPropertyCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusterproperties.about.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/enhancements/pull/2149"}
spec:
  group: about.k8s.io
  names: {kind: ClusterProperty, listKind: ClusterPropertyList, plural: clusterproperties, singular: clusterproperty}
  scope: Cluster
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {value: {type: string}}
`

// TestPeerForms has a hub that takes its id from its cluster, and a peer that is
// read with a token and serves the older version of the API only.
func TestPeerForms(t *testing.T) {
	set := clusterset(t, "hub", "old")
	hub, old := set[0], set[1]
	hub.namespace(t, "shop")
	old.namespace(t, "shop")
	client, err := dynamic.NewForConfig(old.Config())
	must(t, err)
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	// serve has the newer version served, or not.
	serve := func(t *testing.T, served bool) {
		t.Helper()
		const name = "serviceexports.multicluster.x-k8s.io"
		crd, err := definitions.Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		must(t, err)
		for i, v := range versions {
			if v, ok := v.(map[string]any); ok && v["name"] == "v1beta1" {
				patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/versions/%d/served","value":%t}]`, i, served)
				_, err := definitions.Patch(t.Context(), name, types.JSONPatchType, patch, metav1.PatchOptions{})
				must(t, err)
			}
		}
		eventually(t, "the API server follows", func() error {
			_, err := old.mcs.MulticlusterV1beta1().ServiceExports("").List(t.Context(), metav1.ListOptions{})
			if (err == nil) != served {
				return fmt.Errorf("served %v: %w", !served, err)
			}
			return nil
		})
	}
	serve(t, false)
	const olderExport = "apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ServiceExport\nmetadata: {namespace: shop, name: %s}\n"
	old.apply(t, service("shop", "web", httpService), slice("shop", "web", "web-1", webPorts, "10.1.0.1"))
	eventually(t, "an export of the older version", func() error {
		return old.Apply(t.Context(), fmt.Appendf(nil, olderExport, "web"))
	})
	token, err := old.kube.CoreV1().ServiceAccounts("k8s-mcs").CreateToken(t.Context(), "peer", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	config := old.Config()
	hub.peerSecret(t, "peer-old", "old", map[string][]byte{
		"server": []byte(config.Host), "ca.crt": config.CAData, "token": []byte(token.Status.Token),
	})

	syncd := hub.syncd(t, "--cluster-id=", "--probe-interval=1s")
	t.Run("without an id syncd lives, waits, and says for what", func(t *testing.T) {
		eventually(t, "a line with the remedy", func() error {
			return oneLine(syncd.Log(), `"level":"ERROR"`, "cannot tell this cluster's id", "give --cluster-id, or create the ClusterProperty cluster.clusterset.k8s.io")
		})
		if status, body := syncd.get(t, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "cluster id") {
			t.Errorf("/readyz is %d %s", status, body)
		}
		if status, _ := syncd.get(t, "/healthz"); status != http.StatusOK {
			t.Errorf("/healthz is %d", status)
		}
	})
	t.Run("the ClusterProperty gives it", func(t *testing.T) {
		hub.apply(t, clusterPropertyCRD)
		eventually(t, "the property", func() error {
			return hub.Apply(t.Context(), []byte("apiVersion: about.k8s.io/v1alpha1\nkind: ClusterProperty\nmetadata: {name: cluster.clusterset.k8s.io}\nspec: {value: amber}\n"))
		})
		eventually(t, "readiness", func() error {
			if status, body := syncd.get(t, "/readyz"); status != http.StatusOK {
				return fmt.Errorf("/readyz is %d %s", status, body)
			}
			return nil
		})
		hub.put(t, "shop", "own", "10.0.0.1")
		eventually(t, "own endpoints under that id", func() error {
			return hub.wantMirrored(t, "shop", "own", map[string]string{"amber": "10.0.0.1"})
		})
	})
	t.Run("a peer of the older version is read, by a token", func(t *testing.T) {
		eventually(t, "its endpoints", func() error {
			return hub.wantMirrored(t, "shop", "web", map[string]string{"old": "10.1.0.1"})
		})
		must(t, syncd.metric(t, state("old", "Synced")))
		old.apply(t, service("shop", "late", httpService), slice("shop", "late", "late-1", webPorts, "10.1.0.2"), fmt.Sprintf(olderExport, "late"))
		eventually(t, "what a watch brings", func() error {
			return hub.wantMirrored(t, "shop", "late", map[string]string{"old": "10.1.0.2"})
		})
	})
	t.Run("the newer version can come while syncd runs", func(t *testing.T) {
		before := writesOnceQuiet(t, hub, syncdUser)
		serve(t, true)
		old.put(t, "shop", "newer", "10.1.0.3")
		eventually(t, "an export made by it", func() error {
			return hub.wantMirrored(t, "shop", "newer", map[string]string{"old": "10.1.0.3"})
		})
		for _, w := range writesOnceQuiet(t, hub, syncdUser)[len(before):] {
			if w.Verb == "delete" {
				t.Errorf("something was withdrawn meanwhile: %+v", w)
			}
		}
	})
	t.Run("no request was refused", func(t *testing.T) {
		for _, m := range set {
			for _, e := range requests(t, m) {
				if e.Code == http.StatusForbidden {
					t.Errorf("%s: %s may not %s %s %s", m.id, e.User, e.Verb, e.Resource, e.Path)
				}
			}
		}
	})
}
