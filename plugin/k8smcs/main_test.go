package k8smcs

import (
	"fmt"
	"os"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/core/plugin" // what stands around k8s_mcs in a server
	clog "github.com/coredns/coredns/plugin/pkg/log"
)

func TestMain(m *testing.M) {
	directives, err := Directives(dnsserver.Directives)
	if err == nil {
		err = dnsserver.SetDirectives(directives)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	caddy.Quiet, dnsserver.Quiet = true, true
	clog.Discard()
	os.Exit(m.Run())
}
