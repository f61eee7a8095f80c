package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

// controllers are those without which objects written by a test do not behave
// as in a cluster: namespaces that finish deleting, owners that take their
// dependents along, service accounts with tokens, and slices out of Services
// and Pods.
var controllers = []string{
	names.NamespaceController,
	names.GarbageCollectorController,
	names.ServiceAccountController,
	names.ServiceAccountTokenController,
	names.RootCACertificatePublisherController,
	names.EndpointSliceController,
}

// runControllerManager runs kube-controller-manager until a signal or the end
// of standard input. It opens no port and elects no leader.
func runControllerManager(args []string) error {
	flags := flag.NewFlagSet(nameControllerManager, flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "file with the access of system:kube-controller-manager")
	pkiDir := flags.String("pki-dir", "", "folder with ca.crt and sa.key")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := require(flags, "kubeconfig", "pki-dir"); err != nil {
		return err
	}
	gone := parentGone()
	go func() {
		<-gone
		os.Exit(0)
	}()

	command := app.NewControllerManagerCommand()
	command.SetArgs([]string{
		"--kubeconfig=" + *kubeconfig,
		"--controllers=" + strings.Join(controllers, ","),
		"--leader-elect=false",
		"--secure-port=0",
		// Each controller as its own service account, with the rights that a
		// cluster gives it: the audit log then says which one wrote.
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + filepath.Join(*pkiDir, "sa.key"),
		"--root-ca-file=" + filepath.Join(*pkiDir, "ca.crt"),
	})
	if code := cli.Run(command); code != 0 {
		return fmt.Errorf("%s ended with code %d", nameControllerManager, code)
	}
	return nil
}
