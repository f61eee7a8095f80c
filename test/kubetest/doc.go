// Package kubetest runs real Kubernetes control planes on this machine for
// tests and for the demo: kube-apiserver with etcd, and kube-controller-manager
// where asked for, one process each, on loopback, without root, containers or
// network. It builds their binary once out of the module in test/kube.
//
// The verbs are those of what can happen to a cluster: [Cluster.Stop] is
// SIGTERM, [Cluster.Kill] SIGKILL, [Cluster.Hang] SIGSTOP, and a [Link] is the
// network before an API server, to be cut or to fall silent. A cluster that
// comes back has its port, its certificates and its data.
//
// Nothing outlives its owner. Children are killed by the kernel when this
// process dies, and end when their standard input does; folders left by a
// killed run are removed by the next [NewBed]. Two runs beside each other
// share the built binary and nothing else.
//
// It needs Linux and the go command.
package kubetest
