package main

import (
	"slices"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
)

func TestOurDirectiveStandsBetweenACLAndCacheAndAllOthersStay(t *testing.T) {
	stock := slices.Clone(dnsserver.Directives)
	if err := addDirective(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dnsserver.Directives = stock })

	at := slices.Index(dnsserver.Directives, "k8s_mcs")
	if at < 1 || dnsserver.Directives[at-1] != "acl" || dnsserver.Directives[at+1] != "cache" {
		t.Fatalf("k8s_mcs is at %d of %q, want it between acl and cache", at, dnsserver.Directives)
	}
	if others := slices.Delete(slices.Clone(dnsserver.Directives), at, at+1); !slices.Equal(others, stock) {
		t.Errorf("the other directives are %q, want CoreDNS's own %q", others, stock)
	}
	for _, name := range []string{"loadbalance", "tsig", "rewrite", "any"} {
		if i := slices.Index(dnsserver.Directives, name); i < 0 || i > at {
			t.Errorf("%s is at %d, want it before k8s_mcs at %d", name, i, at)
		}
	}
	for _, name := range []string{"header", "dnssec", "minimal", "template", "transfer", "hosts", "kubernetes", "loop", "forward"} {
		if i := slices.Index(dnsserver.Directives, name); i < at {
			t.Errorf("%s is at %d, want it behind k8s_mcs at %d", name, i, at)
		}
	}
}

func TestEveryDirectiveIsAPluginOfThisBinary(t *testing.T) {
	for _, name := range append(slices.Clone(dnsserver.Directives), "k8s_mcs") {
		if _, err := caddy.DirectiveAction("dns", name); err != nil {
			t.Errorf("directive %s: %v", name, err)
		}
	}
}
