package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

var (
	pods           = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	services       = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	secrets        = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	namespaces     = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	serviceImports = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceimports"}
	serviceExports = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceexports"}
	gkeExports     = schema.GroupVersionResource{Group: "net.gke.io", Version: "v1", Resource: "serviceexports"}
)

const testNamespace = `
apiVersion: v1
kind: Namespace
metadata: {name: test}
`

// peerSecret is how a cluster is told of a peer.
func peerSecret(cluster string, kubeconfig []byte) []byte {
	return fmt.Appendf(nil, `
apiVersion: v1
kind: Secret
metadata:
  name: peer-%[1]s
  namespace: k8s-mcs
  labels: {k8s-mcs.io/peer: %[1]s}
data:
  kubeconfig: %[2]s
`, cluster, base64.StdEncoding.EncodeToString(kubeconfig))
}

// pod is a backend as its kubelet would report it.
type pod struct {
	name, node, ip string
	service        string
	ready          bool
	ordinal        bool // of a StatefulSet: it has its name as hostname
}

func (p pod) yaml() string {
	ready, hostname := "False", ""
	if p.ready {
		ready = "True"
	}
	if p.ordinal {
		hostname = fmt.Sprintf("\n  hostname: %s\n  subdomain: %s", p.name, p.service)
	}
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata:
  name: %[1]s
  namespace: test
  labels: {app: %[4]s}
spec:%[6]s
  nodeName: %[2]s
  containers: [{name: app, image: example.invalid/app}]
status:
  phase: Running
  podIP: %[3]s
  podIPs: [{ip: %[3]s}]
  conditions: [{type: Ready, status: %[5]q}]
`, p.name, p.node, p.ip, p.service, ready, hostname)
}

// backends of whereami, with the addresses of the public walkthrough.
var backends = map[string][]pod{
	tokyo1: {
		{name: "whereami-76c9f-4tqhz", node: "tyo-node-0", ip: "10.5.0.10", service: "whereami", ready: true},
		{name: "whereami-76c9f-r2xkp", node: "tyo-node-1", ip: "10.5.1.13", service: "whereami", ready: true},
	},
	osaka1: {
		{name: "whereami-76c9f-9mwlc", node: "osa-node-0", ip: "10.6.0.9", service: "whereami", ready: true},
		{name: "whereami-76c9f-h5vbd", node: "osa-node-1", ip: "10.6.1.6", service: "whereami", ready: true},
	},
}

// exporters are the clusters that have backends.
var exporters = []string{osaka1, tokyo1}

// nodes are there because kube-controller-manager puts no Pod into a slice
// whose Node it does not know.
var nodes = map[string][]string{tokyo1: {"tyo-node-0", "tyo-node-1"}, osaka1: {"osa-node-0", "osa-node-1"}}

func node(name string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Node
metadata:
  name: %s
status:
  conditions: [{type: Ready, status: "True", reason: Demo, message: no kubelet}]
`, name)
}

// service is a Service with one port; a port without a name is as good as one with.
func service(name string, port int, portName string) string {
	return serviceOf(name, port, portName, "")
}

// headless is a Service without an IP.
func headless(name string, port int, portName string) string {
	return serviceOf(name, port, portName, "\n  clusterIP: None")
}

func serviceOf(name string, port int, portName, more string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata:
  name: %[1]s
  namespace: test
spec:%[4]s
  selector: {app: %[1]s}
  ports: [{name: %[3]q, port: %[2]d, targetPort: 8080}]
`, name, port, portName, more)
}

func export(name string) string { return exportOf("multicluster.x-k8s.io/v1beta1", name) }

// gkeExport is an export as GKE's manifests have it.
func gkeExport(name string) string { return exportOf("net.gke.io/v1", name) }

func exportOf(version, name string) string {
	return fmt.Sprintf(`---
apiVersion: %s
kind: ServiceExport
metadata:
  name: %s
  namespace: test
`, version, name)
}

func podsOf(list []pod) string {
	var text strings.Builder
	for _, p := range list {
		text.WriteString(p.yaml())
	}
	return text.String()
}

func apply(ctx context.Context, c *kubetest.Cluster, objects ...string) error {
	return c.Apply(ctx, []byte(strings.Join(objects, "")))
}

// remove deletes objects of one kind at once, as a kubelet would confirm it.
// What is not there is no error.
func remove(ctx context.Context, c *kubetest.Cluster, kind schema.GroupVersionResource, namespace string, names ...string) error {
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	for _, name := range names {
		err := client.Resource(kind).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s %s in %s: %w", kind.Resource, name, c.Name(), err)
		}
	}
	return nil
}

func removePods(ctx context.Context, c *kubetest.Cluster, list []pod) error {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.name
	}
	return remove(ctx, c, pods, "test", names...)
}
