package integration

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/k8s-mcs/k8s-mcs/deploy"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// TestDeploy applies what is shipped to a cluster whose Service range has the
// address of the DNS Service.
func TestDeploy(t *testing.T) {
	bed := kubetest.ForTest(t)
	m := start(t, bed, kubetest.ClusterConfig{Name: "hub", ServiceCIDRs: "10.96.0.0/16,fd00:10:96::/112"})[0]
	must(t, m.InstallCRDs(t.Context()))
	base := documents(t, "base")
	namespaces := slices.IndexFunc(base, func(o *unstructured.Unstructured) bool { return o.GetKind() != "Namespace" })
	for _, namespace := range base[:namespaces] { // a dry run makes none for those that follow
		must(t, m.Apply(t.Context(), toYAML(t, namespace)))
	}

	t.Run("the API server takes every document", func(t *testing.T) {
		for _, object := range append(slices.Clone(base), documents(t, "stubdomains/kube-dns")...) {
			if err := m.applyAs(t, object, metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
				t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
		}
	})
	t.Run("it takes the custom resource definitions", func(t *testing.T) {
		files, err := fs.Glob(deploy.CRDs, "crds/*.yaml")
		must(t, err)
		gke, err := fs.Glob(deploy.CRDs, "crds/gke-compat/*.yaml")
		must(t, err)
		if len(files) != 2 || len(gke) != 1 {
			t.Errorf("there are %v and %v", files, gke)
		}
		files = append(files, gke...)
		for _, file := range files {
			content, err := deploy.CRDs.ReadFile(file)
			must(t, err)
			if err := m.applyAs(t, fromYAML(t, string(content)), metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	})
	t.Run("it takes the README's overlay too", func(t *testing.T) {
		for _, object := range overlay(t, base) {
			if err := m.applyAs(t, object, metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
				t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
		}
	})
	for _, object := range base {
		must(t, m.applyAs(t, object, metav1.ApplyOptions{}))
	}
	t.Run("applied again, nothing is in the way", func(t *testing.T) {
		for _, object := range base {
			must(t, m.applyAs(t, object, metav1.ApplyOptions{}))
		}
	})
	t.Run("the pods are admitted where only restricted ones are", func(t *testing.T) {
		for _, d := range deployments(t, m) {
			namespace, err := m.kube.CoreV1().Namespaces().Get(t.Context(), d.Namespace, metav1.GetOptions{})
			must(t, err)
			if namespace.Labels == nil {
				namespace.Labels = map[string]string{}
			}
			namespace.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
			_, err = m.kube.CoreV1().Namespaces().Update(t.Context(), namespace, metav1.UpdateOptions{})
			must(t, err)
			create := func(change func(*corev1.Pod)) error {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: d.Name, Labels: d.Spec.Template.Labels}, Spec: *d.Spec.Template.Spec.DeepCopy()}
				change(pod)
				_, err := m.kube.CoreV1().Pods(d.Namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return err
			}
			// The policy is at work once it refuses what it should.
			eventually(t, "a pod with a right too many is refused", func() error {
				err := create(func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.Capabilities = nil })
				if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "PodSecurity") {
					return nil
				}
				return fmt.Errorf("not refused by the policy: %w", err)
			})
			if err := create(func(*corev1.Pod) {}); err != nil {
				t.Errorf("%s: %v", d.Name, err)
			}
		}
	})
	t.Run("syncd runs with the arguments of its Deployment, and its probes' pages are there", func(t *testing.T) {
		container := deployments(t, m)["syncd"].Spec.Template.Spec.Containers[0]
		var args []string
		for _, arg := range container.Args {
			if !strings.HasPrefix(arg, "--listen=") { // a port of its own here
				args = append(args, strings.ReplaceAll(arg, "$(CLUSTER_ID)", m.id))
			}
		}
		if len(args) != len(container.Args)-1 || !slices.Contains(args, "--cluster-id="+m.id) {
			t.Fatalf("the arguments are %q", container.Args)
		}
		syncd := m.syncd(t, args...)
		for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
			eventually(t, "a good answer", func() error {
				if status, body := syncd.get(t, probe.HTTPGet.Path); status != http.StatusOK {
					return fmt.Errorf("%s is %d %s", probe.HTTPGet.Path, status, body)
				}
				return nil
			})
		}
	})
	t.Run("stub domains of others are not overwritten, and other keys stay", func(t *testing.T) {
		ours := documents(t, "stubdomains/kube-dns")[0]
		const theirs = `{"corp.example": ["10.0.0.10"]}`
		maps := m.kube.CoreV1().ConfigMaps("kube-system")
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "kube-dns"},
			Data:       map[string]string{"stubDomains": theirs, "upstreamNameservers": `["10.0.0.11"]`},
		}, metav1.CreateOptions{FieldManager: "an-operator"})
		must(t, err)
		if err := m.applyAs(t, ours, metav1.ApplyOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("error %v, want a conflict", err)
		}
		live, err := maps.Get(t.Context(), "kube-dns", metav1.GetOptions{})
		must(t, err)
		if live.Data["stubDomains"] != theirs {
			t.Errorf("stub domains are %s", live.Data["stubDomains"])
		}
		delete(live.Data, "stubDomains")
		_, err = maps.Update(t.Context(), live, metav1.UpdateOptions{FieldManager: "an-operator"})
		must(t, err)
		must(t, m.applyAs(t, ours, metav1.ApplyOptions{}))
		live, err = maps.Get(t.Context(), "kube-dns", metav1.GetOptions{})
		must(t, err)
		if !strings.Contains(live.Data["stubDomains"], "clusterset.local") || live.Data["upstreamNameservers"] == "" {
			t.Errorf("the ConfigMap is %v", live.Data)
		}
	})
}

// documents are the objects of a folder of deploy.
func documents(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	rendered, err := deploy.Render(folder)
	must(t, err)
	objects := make([]*unstructured.Unstructured, 0, len(rendered))
	for _, document := range rendered {
		objects = append(objects, fromYAML(t, string(document)))
	}
	return objects
}

func fromYAML(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(text), &object.Object))
	return object
}

func toYAML(t *testing.T, object *unstructured.Unstructured) []byte {
	t.Helper()
	content, err := yaml.Marshal(object.Object)
	must(t, err)
	return content
}

// applyAs is what kubectl apply --server-side does: conflicts are errors.
func (m *member) applyAs(t *testing.T, object *unstructured.Unstructured, options metav1.ApplyOptions) error {
	t.Helper()
	options.FieldManager = "kubectl"
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(m.kube.Discovery()))
	mapping, err := mapper.RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
	must(t, err)
	client, err := dynamic.NewForConfig(m.Config())
	must(t, err)
	_, err = client.Resource(mapping.Resource).Namespace(object.GetNamespace()).Apply(t.Context(), object.GetName(), object, options)
	return err
}

func deployments(t *testing.T, m *member) map[string]*appsv1.Deployment {
	t.Helper()
	list, err := m.kube.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	found := map[string]*appsv1.Deployment{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	if len(found) != 2 {
		t.Fatalf("there are %d Deployments", len(found))
	}
	return found
}

// overlay makes of the base what the README's kustomization makes of it: images
// and strategic merge patches.
func overlay(t *testing.T, base []*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	readme, err := os.ReadFile(path.Join("..", "..", "deploy", "README.md"))
	must(t, err)
	_, block, ok := strings.Cut(string(readme), "\n```yaml\n")
	block, _, closed := strings.Cut(block, "\n```\n")
	if !ok || !closed {
		t.Fatal("the README of deploy has no overlay")
	}
	var kustomization struct {
		APIVersion, Kind string
		Resources        []string
		Images           []struct{ Name, NewName, NewTag string }
		Patches          []struct{ Patch string }
	}
	must(t, yaml.UnmarshalStrict([]byte(block), &kustomization))
	if len(kustomization.Resources) != 1 || !strings.HasSuffix(kustomization.Resources[0], "/deploy/base") {
		t.Errorf("the overlay is of %v", kustomization.Resources)
	}
	applied := 0
	objects := make([]*unstructured.Unstructured, 0, len(base))
	for _, object := range base {
		content, err := json.Marshal(object.Object)
		must(t, err)
		for _, patch := range kustomization.Patches {
			target := fromYAML(t, patch.Patch)
			if target.GroupVersionKind() != object.GroupVersionKind() || target.GetName() != object.GetName() || target.GetNamespace() != object.GetNamespace() {
				continue
			}
			applied++
			typed, err := scheme.Scheme.New(object.GroupVersionKind())
			must(t, err)
			merge, err := json.Marshal(target.Object)
			must(t, err)
			content, err = strategicpatch.StrategicMergePatch(content, merge, typed)
			must(t, err)
		}
		text := string(content)
		for _, image := range kustomization.Images {
			if before := text; object.GetKind() == "Deployment" {
				text = strings.Replace(text, `"image":"`+image.Name+`:dev"`, `"image":"`+image.NewName+":"+image.NewTag+`"`, 1)
				if text != before {
					applied++
				}
			}
		}
		patched := &unstructured.Unstructured{}
		must(t, patched.UnmarshalJSON([]byte(text)))
		objects = append(objects, patched)
	}
	if want := len(kustomization.Patches) + len(kustomization.Images); applied != want || want != 3 {
		t.Errorf("%d of %d images and patches of the overlay are about something in the base", applied, want)
	}
	return objects
}
