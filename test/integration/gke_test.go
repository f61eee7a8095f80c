package integration

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/k8s-mcs/k8s-mcs/deploy"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
)

// installGKE installs the CRD of GKE's kind and waits until it is served.
func (m *member) installGKE(t *testing.T) dynamic.Interface {
	t.Helper()
	manifest, err := deploy.CRDs.ReadFile("crds/gke-compat/net.gke.io_serviceexports.yaml")
	must(t, err)
	must(t, m.Apply(t.Context(), manifest))
	client, err := dynamic.NewForConfig(m.Config())
	must(t, err)
	exports := client.Resource(schema.GroupVersionResource{Group: "net.gke.io", Version: "v1", Resource: "serviceexports"})
	eventually(t, "the kind of net.gke.io", func() error {
		_, err := exports.List(t.Context(), metav1.ListOptions{})
		return err
	})
	return client
}

func gkeExport(namespace, name string) string {
	return strings.Replace(export(namespace, name), "multicluster.x-k8s.io/v1beta1", "net.gke.io/v1", 1)
}

// TestGKECompat exports by GKE's kind into a cluster that does not serve it.
func TestGKECompat(t *testing.T) {
	set := clusterset(t, "tyo-cluster-02", "tyo-cluster-01")
	hub, tyo := set[0], set[1]
	mesh(t, hub, tyo)
	gke := tyo.installGKE(t)
	hub.namespace(t, "test")
	tyo.namespace(t, "test")
	flags := []string{"--gke-compat", "--derived-prefix", "gke-mcs-"}
	hub.syncd(t, flags...)
	tyo.syncd(t, flags...)
	importOf := func(name string) *api.ServiceImport {
		i, err := hub.mcs.MulticlusterV1beta1().ServiceImports("test").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return i
	}

	tyo.apply(t, service("test", "whereami", "{ports: [{port: 8080}]}"),
		slice("test", "whereami", "whereami-1", "[{name: '', port: 8080}]", "10.5.0.10", "10.5.1.13"), gkeExport("test", "whereami"))
	eventually(t, "the import", func() error { return readyWith(importOf("whereami"), "tyo-cluster-01") })
	if got := importOf("whereami").Annotations["net.gke.io/derived-service"]; got != "gke-mcs-isu46k25p2" {
		t.Errorf("the import's annotation is %q", got)
	}
	derived, err := hub.kube.CoreV1().Services("test").Get(t.Context(), "gke-mcs-isu46k25p2", metav1.GetOptions{})
	must(t, err)
	if got := derived.Annotations["net.gke.io/service-import"]; got != "whereami" {
		t.Errorf("the derived Service's annotation is %q", got)
	}
	eventually(t, "Endpoints as kubectl shows them", func() error {
		e, err := hub.kube.CoreV1().Endpoints("test").Get(t.Context(), "gke-mcs-isu46k25p2", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(e.Subsets) != 1 || len(e.Subsets[0].Addresses) != 2 || e.Subsets[0].Ports[0].Port != 8080 {
			return fmt.Errorf("subsets are %+v", e.Subsets)
		}
		return nil
	})
	eventually(t, "conditions on GKE's kind", func() error {
		e, err := watch.GKEExports(gke, "test").Get(t.Context(), "whereami", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(e.Status.Conditions) != 3 || e.Status.Conditions[0].Status != metav1.ConditionTrue {
			return fmt.Errorf("conditions are %v", e.Status.Conditions)
		}
		return nil
	})

	t.Run("both kinds for one name are one export", func(t *testing.T) {
		tyo.apply(t, strings.Replace(export("test", "whereami"), "metadata:", "spec: {exportedLabels: {team: a}}\nmetadata:", 1))
		eventually(t, "the standard one's fields", func() error {
			if imp := importOf("whereami"); imp == nil || imp.Labels["team"] != "a" {
				return fmt.Errorf("import is %v", imp)
			}
			return readyWith(importOf("whereami"), "tyo-cluster-01")
		})
		vip := importOf("whereami").Spec.IPs
		exports := schema.GroupVersionResource{Group: "net.gke.io", Version: "v1", Resource: "serviceexports"}
		must(t, gke.Resource(exports).Namespace("test").Delete(t.Context(), "whereami", metav1.DeleteOptions{}))
		writesOnceQuiet(t, hub, syncdUser)
		if imp := importOf("whereami"); imp == nil || fmt.Sprint(imp.Spec.IPs) != fmt.Sprint(vip) {
			t.Errorf("without GKE's kind the import is %v", imp)
		}
	})

	t.Run("the same name comes back as headless after everything was deleted", func(t *testing.T) {
		must(t, tyo.mcs.MulticlusterV1beta1().ServiceExports("test").Delete(t.Context(), "whereami", metav1.DeleteOptions{}))
		must(t, tyo.kube.CoreV1().Services("test").Delete(t.Context(), "whereami", metav1.DeleteOptions{}))
		eventually(t, "nothing left", func() error {
			if imp := importOf("whereami"); imp != nil {
				return fmt.Errorf("the import is there: %v", imp.Spec)
			}
			_, err := hub.kube.CoreV1().Endpoints("test").Get(t.Context(), "gke-mcs-isu46k25p2", metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("the Endpoints: %w", err)
			}
			return nil
		})
		tyo.apply(t, service("test", "whereami", "{clusterIP: None, ports: [{port: 8080}]}"), gkeExport("test", "whereami"))
		eventually(t, "a headless import", func() error {
			imp := importOf("whereami")
			if err := readyWith(imp, "tyo-cluster-01"); err != nil {
				return err
			}
			if imp.Spec.Type != api.Headless || len(imp.Spec.IPs) != 0 || imp.Annotations["net.gke.io/derived-service"] != "" {
				return fmt.Errorf("import is %v", imp)
			}
			return hub.wantMirrored(t, "test", "whereami", map[string]string{"tyo-cluster-01": "10.5.0.10,10.5.1.13"})
		})
		if _, err := hub.kube.CoreV1().Endpoints("test").Get(t.Context(), "gke-mcs-isu46k25p2", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("Endpoints of a headless import: %v", err)
		}
	})

	for _, m := range set {
		events, err := m.AuditEvents()
		must(t, err)
		for _, e := range events {
			if (e.User == syncdUser || e.User == peerUser) && e.Code == 403 {
				t.Errorf("%s: %s may not %s %s.%s/%s", m.id, e.User, e.Verb, e.Resource, e.Group, e.Subresource)
			}
		}
	}
}
