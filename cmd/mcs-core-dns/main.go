// Command mcs-core-dns is CoreDNS with all its plugins and k8s_mcs. Its flags
// are CoreDNS's own.
package main

import (
	"fmt"
	"os"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/core/plugin" // every plugin of CoreDNS
	"github.com/coredns/coredns/coremain"

	"github.com/k8s-mcs/k8s-mcs/plugin/k8smcs"
)

// version is our own, set with -ldflags "-X main.version=v1.2.3". CoreDNS adds its.
var version = "dev"

func main() {
	caddy.AppName = "mcs-core-dns-" + version + " " + coremain.CoreName
	if err := addDirective(); err != nil {
		fmt.Fprintf(os.Stderr, "mcs-core-dns: %v\n", err)
		os.Exit(1)
	}
	coremain.Run()
}

func addDirective() error {
	directives, err := k8smcs.Directives(dnsserver.Directives)
	if err != nil {
		return err
	}
	return dnsserver.SetDirectives(directives)
}
