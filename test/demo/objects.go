package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
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
}

// backends of whereami, with the addresses of the public walkthrough.
var backends = map[string][]pod{
	tokyo1: {
		{name: "whereami-0", node: "tyo-node-0", ip: "10.5.0.10", service: "whereami", ready: true},
		{name: "whereami-1", node: "tyo-node-1", ip: "10.5.1.13", service: "whereami", ready: true},
	},
	osaka1: {
		{name: "whereami-0", node: "osa-node-0", ip: "10.6.0.9", service: "whereami", ready: true},
		{name: "whereami-1", node: "osa-node-1", ip: "10.6.1.6", service: "whereami", ready: true},
	},
}

// hello is exported later, to see how long that takes.
var hello = pod{name: "hello-0", node: "osa-node-0", ip: "10.6.0.21", service: "hello", ready: true}

// node is there because kube-controller-manager puts no Pod into a slice whose
// Node it does not know.
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

func (p pod) yaml() string {
	ready := "False"
	if p.ready {
		ready = "True"
	}
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata:
  name: %[1]s
  namespace: test
  labels: {app: %[4]s}
spec:
  nodeName: %[2]s
  containers: [{name: app, image: example.invalid/app}]
status:
  phase: Running
  podIP: %[3]s
  podIPs: [{ip: %[3]s}]
  conditions: [{type: Ready, status: %[5]q}]
`, p.name, p.node, p.ip, p.service, ready)
}

// service is a Service with one port; a port without a name is as good as one with.
func service(name string, port int, portName string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata:
  name: %[1]s
  namespace: test
spec:
  selector: {app: %[1]s}
  ports: [{name: %[3]q, port: %[2]d, targetPort: 8080}]
`, name, port, portName)
}

func export(name string) string {
	return fmt.Sprintf(`---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata:
  name: %s
  namespace: test
`, name)
}

// export makes whereami in the two clusters that have it, and exports it.
func (w *world) export(ctx context.Context) error {
	w.screen.step("making Service whereami with two Pods in %s and in %s, and exporting it", tokyo1, osaka1)
	for _, name := range []string{tokyo1, osaka1} {
		var objects strings.Builder
		for _, p := range backends[name] {
			objects.WriteString(node(p.node) + p.yaml())
		}
		objects.WriteString(service("whereami", 8080, "") + export("whereami"))
		if err := apply(ctx, w.clusters[name], objects.String()); err != nil {
			return err
		}
	}
	return nil
}

func apply(ctx context.Context, c *kubetest.Cluster, objects ...string) error {
	return c.Apply(ctx, []byte(strings.Join(objects, "")))
}
