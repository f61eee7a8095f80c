package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/k8s-mcs/k8s-mcs/corefile"
)

// strict refuses fields that the API types do not have, and fields given twice.
var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// objects are the documents of a folder as API types, by "Kind namespace/name".
func objects(t *testing.T, folder string) map[string]runtime.Object {
	t.Helper()
	documents, err := Render(folder)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]runtime.Object{}
	for _, document := range documents {
		object, kind, err := strict.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		meta, ok := object.(metav1.Object)
		if !ok {
			t.Fatalf("%T has no name", object)
		}
		name := kind.Kind + " " + path.Join(meta.GetNamespace(), meta.GetName())
		if found[name] != nil {
			t.Errorf("%s is there twice", name)
		}
		found[name] = object
	}
	return found
}

func get[T runtime.Object](t *testing.T, all map[string]runtime.Object, name string) T {
	t.Helper()
	object, ok := all[name].(T)
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	return object
}

var workloads = []string{"Deployment k8s-mcs/syncd", "Deployment kube-system/mcs-core-dns"}

func TestBaseIsWhole(t *testing.T) {
	base := objects(t, "base")
	for _, name := range workloads {
		d := get[*appsv1.Deployment](t, base, name)
		pod, container := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
		for key, value := range d.Spec.Selector.MatchLabels {
			if d.Spec.Template.Labels[key] != value {
				t.Errorf("%s selects pods by %s=%s, its own have %v", name, key, value, d.Spec.Template.Labels)
			}
		}
		get[*corev1.ServiceAccount](t, base, "ServiceAccount "+d.Namespace+"/"+pod.ServiceAccountName)
		for _, volume := range pod.Volumes {
			get[*corev1.ConfigMap](t, base, "ConfigMap "+d.Namespace+"/"+volume.ConfigMap.Name)
		}
		for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
			if port := portOf(container, probe.HTTPGet.Port.StrVal); port.Protocol != "" {
				t.Errorf("a probe of %s asks for the port %s: %+v", name, probe.HTTPGet.Port.StrVal, port)
			}
		}
		if strings.Contains(container.Image, "/") || !strings.HasSuffix(container.Image, ":dev") || len(container.Resources.Requests) != 2 {
			t.Errorf("%s has image %s and requests %v", name, container.Image, container.Resources.Requests)
		}
	}
	dns := get[*appsv1.Deployment](t, base, workloads[1])
	budget := get[*policyv1.PodDisruptionBudget](t, base, "PodDisruptionBudget kube-system/mcs-core-dns")
	if *dns.Spec.Replicas < 2 || budget.Spec.MinAvailable.IntValue() != 1 || !maps.Equal(budget.Spec.Selector.MatchLabels, dns.Spec.Selector.MatchLabels) {
		t.Errorf("%d replicas of mcs-core-dns with the budget %+v: names stop resolving while a node is drained", *dns.Spec.Replicas, budget.Spec)
	}
	for _, folder := range []string{"base", "stubdomains/kube-dns"} {
		for name := range objects(t, folder) {
			if strings.HasPrefix(name, "CustomResourceDefinition") {
				t.Errorf("%s holds %s: to delete it would be to delete every export", folder, name)
			}
		}
	}
}

// portOf is a container's port by name; its protocol is as written.
func portOf(c corev1.Container, name string) corev1.ContainerPort {
	for _, port := range c.Ports {
		if port.Name == name {
			return port
		}
	}
	return corev1.ContainerPort{Protocol: "none of this name"}
}

func TestTheServersCorefileIsOurOwnOnAPortThatNeedsNoRight(t *testing.T) {
	base := objects(t, "base")
	container := get[*appsv1.Deployment](t, base, workloads[1]).Spec.Template.Spec.Containers[0]
	dns := portOf(container, "dns")
	want := strings.Replace(corefile.MCSCoreDNS, "\nclusterset.local:53 {\n", fmt.Sprintf("\nclusterset.local:%d {\n", dns.ContainerPort), 1)
	if got := get[*corev1.ConfigMap](t, base, "ConfigMap kube-system/mcs-core-dns").Data["Corefile"]; got != want {
		t.Errorf("the Corefile is\n%s\nwant that of package corefile on the container's port:\n%s", got, want)
	}
	if dns.ContainerPort < 1024 || dns.Protocol != "UDP" {
		t.Errorf("the server listens on %+v", dns)
	}
	file := path.Join(container.VolumeMounts[0].MountPath, "Corefile")
	if want := []string{"-conf", file}; !slices.Equal(container.Args, want) {
		t.Errorf("the arguments are %q, want %q", container.Args, want)
	}
	// The ports of the plugins health, ready and prometheus, as the Corefile has them.
	for name, port := range map[string]int32{"health": 8080, "ready": 8181, "metrics": 9153} {
		if got := portOf(container, name).ContainerPort; got != port {
			t.Errorf("the port %s is %d, want %d", name, got, port)
		}
	}
	if live, ready := container.LivenessProbe.HTTPGet, container.ReadinessProbe.HTTPGet; live.Path != "/health" || live.Port.StrVal != "health" || ready.Path != "/ready" || ready.Port.StrVal != "ready" {
		t.Errorf("probes are %+v and %+v", live, ready)
	}
}

func TestTheDNSServiceIsThatOfTheStubDomain(t *testing.T) {
	base := objects(t, "base")
	service := get[*corev1.Service](t, base, "Service kube-system/mcs-core-dns")
	deployment := get[*appsv1.Deployment](t, base, workloads[1])
	var ports []string
	for _, p := range service.Spec.Ports {
		ports = append(ports, fmt.Sprint(p.Port, "/", p.Protocol))
		target := portOf(deployment.Spec.Template.Spec.Containers[0], p.TargetPort.StrVal)
		if target.Protocol != p.Protocol && (target.Protocol != "" || p.Protocol != corev1.ProtocolTCP) {
			t.Errorf("port %d/%s leads to %+v", p.Port, p.Protocol, target)
		}
	}
	if want := []string{"53/UDP", "53/TCP", "9153/TCP"}; !slices.Equal(ports, want) {
		t.Errorf("the ports are %q, want %q", ports, want)
	}
	for key, value := range service.Spec.Selector {
		if deployment.Spec.Template.Labels[key] != value {
			t.Errorf("the Service selects %v, the pods have %v", service.Spec.Selector, deployment.Spec.Template.Labels)
		}
	}
	stub := get[*corev1.ConfigMap](t, objects(t, "stubdomains/kube-dns"), "ConfigMap kube-system/kube-dns")
	domains := stubDomains(t, stub.Data["stubDomains"])
	if want := []string{service.Spec.ClusterIP}; len(stub.Data) != 1 || len(domains) != 1 || !slices.Equal(domains["clusterset.local"], want) {
		t.Errorf("the stub domains are %v, want clusterset.local at %v and nothing else", stub.Data, want)
	}
	// What the README shows is the same address.
	blocks := codeBlocks(t, "json")
	if merged := stubDomains(t, blocks[0]); len(blocks) != 1 || len(merged) < 2 || !slices.Equal(merged["clusterset.local"], domains["clusterset.local"]) {
		t.Errorf("the README's stub domains are %v", blocks)
	}
	if blocks := codeBlocks(t, "corefile"); len(blocks) != 1 || !strings.Contains(blocks[0], "\n    forward . "+service.Spec.ClusterIP+"\n") {
		t.Errorf("the README's Corefile is %v", blocks)
	}
}

// stubDomains reads the value as kube-dns does: domains, each with addresses that
// may have a port, never with host names.
func stubDomains(t *testing.T, value string) map[string][]string {
	t.Helper()
	var domains map[string][]string
	if err := json.Unmarshal([]byte(value), &domains); err != nil {
		t.Fatalf("stub domains %s: %v", value, err)
	}
	for domain, servers := range domains {
		if len(servers) == 0 {
			t.Errorf("stub domain %s has no server", domain)
		}
		for _, server := range servers {
			_, err := netip.ParseAddr(server)
			if _, withPort := netip.ParseAddrPort(server); err != nil && withPort != nil {
				t.Errorf("stub domain %s has the server %s, which is no address", domain, server)
			}
		}
	}
	return domains
}

func TestBaseHasEveryRole(t *testing.T) {
	files, err := fs.Glob(RBAC, "rbac/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := Render("base")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		if path.Base(file) == "kustomization.yaml" {
			continue
		}
		documents, err := split(RBAC, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range documents {
			seen++
			if !slices.ContainsFunc(rendered, func(other []byte) bool { return bytes.Equal(other, document) }) {
				t.Errorf("the base lacks a document of %s:\n%s", file, document)
			}
		}
	}
	if seen < 5 {
		t.Errorf("found %d documents below rbac", seen)
	}
}

func TestRenderRefusesWhatItDoesNotFollow(t *testing.T) {
	for name, c := range map[string]struct {
		fsys fstest.MapFS
		want string
	}{
		"a patch":                  {fstest.MapFS{"a/kustomization.yaml": {Data: []byte("resources: []\npatches: [{patch: x}]\n")}}, "only resources are followed"},
		"a file that is not there": {fstest.MapFS{"a/kustomization.yaml": {Data: []byte("resources: [b.yaml]\n")}}, "a/b.yaml"},
		"a folder without kustomization": {fstest.MapFS{
			"a/kustomization.yaml": {Data: []byte("resources: [../b]\n")}, "b/x.yaml": {Data: []byte("kind: X\n")},
		}, "b/kustomization.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := render(c.fsys, "a"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q; documents %s", err, c.want, got)
			}
		})
	}
}

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// codeBlocks are the blocks of a language in the README.
func codeBlocks(t *testing.T, language string) (blocks []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(readme(t), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

func TestReadmeCommands(t *testing.T) {
	var order []string
	for line := range strings.Lines(strings.Join(codeBlocks(t, "sh"), "")) {
		words := strings.Fields(line)
		if words[0] != "kubectl" {
			t.Errorf("%q is no command of kubectl", line)
		}
		for i, word := range words {
			if word != "-k" && word != "-f" {
				continue
			}
			folder := words[i+1]
			order = append(order, folder)
			_, err := os.Stat(path.Join("..", folder, "kustomization.yaml"))
			if (err == nil) != (word == "-k") {
				t.Errorf("%q: kubectl reads kustomize folders with -k, and others with -f", line)
			}
			// Who would set a field that others have set is told, rather than obeyed.
			if !slices.Contains(words, "--server-side") || slices.Contains(words, "--force-conflicts") {
				t.Errorf("%q is no server-side apply that minds conflicts", line)
			}
		}
		if slices.Contains(words, "configmap") && words[1] == "create" {
			env := get[*appsv1.Deployment](t, objects(t, "base"), workloads[0]).Spec.Template.Spec.Containers[0].Env[0].ValueFrom.ConfigMapKeyRef
			if words[3] != env.Name || !strings.Contains(line, "--namespace=k8s-mcs ") || !strings.Contains(line, "--from-literal="+env.Key+"=") {
				t.Errorf("%q does not make the ConfigMap %+v that syncd waits for", line, env)
			}
		}
	}
	if want := []string{"deploy/crds", "deploy/rbac", "deploy/base", "deploy/stubdomains/kube-dns"}; !slices.Equal(order, want) {
		t.Errorf("the README applies %q, want %q", order, want)
	}
}
