package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// right is an observation as it should be.
func right(t *testing.T) observation {
	t.Helper()
	const ip = "172.16.31.201"
	records := map[question][3]string{ // answer, authority, status
		questions[0]: {whereamiName + " 5 IN A " + ip, "", "NOERROR"},
		questions[1]: {whereamiName + " 5 IN A " + ip, "", "NOERROR"},
		questions[2]: {"", "clusterset.local. 5 IN SOA ns.dns.clusterset.local. hostmaster.clusterset.local. 7 7200 1800 86400 5", "NOERROR"},
		questions[3]: {whereamiName + " 5 IN SRV 0 100 8080 " + whereamiName, "", "NOERROR"},
		questions[4]: {"", ". 30 IN SOA a.root-servers.net. nstld.verisign-grs.com. 1 1800 900 604800 30", "NXDOMAIN"},
		questions[5]: {"", ". 30 IN SOA a.root-servers.net. nstld.verisign-grs.com. 1 1800 900 604800 30", "NXDOMAIN"},
		questions[6]: {outsideName + " 30 IN A " + outsideAddress, "", "NOERROR"},
	}
	got := observation{
		state: state{
			kind:      "ClusterSetIP",
			derived:   "gke-mcs-isu46k25p2",
			clusterIP: ip,
			importIPs: []string{ip},
			endpoints: []string{"10.6.1.6:8080", "10.5.0.10:8080", "10.6.0.9:8080", "10.5.1.13:8080"},
			classic:   []string{"10.5.0.10:8080", "10.5.1.13:8080", "10.6.0.9:8080", "10.6.1.6:8080"},
			clusters:  []string{tokyo1, osaka1},
		},
		answers: map[question]answer{},
	}
	for q, r := range records {
		m := new(dns.Msg)
		m.Rcode = dns.StringToRcode[r[2]]
		m.Answer, m.Ns = parse(t, r[0]), parse(t, r[1])
		got.answers[q] = answer{message: m}
	}
	return got
}

func parse(t *testing.T, record string) []dns.RR {
	t.Helper()
	if record == "" {
		return nil
	}
	rr, err := dns.NewRR(record)
	if err != nil {
		t.Fatal(err)
	}
	return []dns.RR{rr}
}

func TestCompareFindsEachDifference(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(*expectation, *observation)
		wrong string // beginnings of the findings, with a comma between
	}{
		{"nothing is wrong", func(*expectation, *observation) {}, ""},
		{"another name of the derived Service", func(_ *expectation, o *observation) { o.derived = "mcs-isu46k25p2" }, "name of the derived"},
		{"an endpoint with another address", func(_ *expectation, o *observation) { o.endpoints[2] = "10.6.0.8:8080" }, "ready endpoints,addresses in"},
		{"an endpoint with another port", func(_ *expectation, o *observation) { o.endpoints[2] = "10.6.0.9:80" }, "ready endpoints,addresses in"},
		{"an endpoint too much", func(_ *expectation, o *observation) { o.endpoints = append(o.endpoints, "10.7.0.1:8080") }, "ready endpoints,addresses in"},
		{
			"another clusterset IP", func(e *expectation, _ *observation) { e.clusterIP = "172.16.31.202" },
			"ClusterIP of,IPs of,answer to whereami.test.svc.clusterset.local. A over udp,answer to whereami.test.svc.clusterset.local. A over tcp",
		},
		{"an import with another IP", func(_ *expectation, o *observation) { o.importIPs = []string{"172.16.31.202"} }, "IPs of"},
		{"an import with no IP", func(_ *expectation, o *observation) { o.importIPs = nil }, "IPs of"},
		{
			"an IP of another cluster's range", func(e *expectation, o *observation) { e.ipRange = whereami().ipRange; o.clusterIP = "172.16.32.1" },
			"IPs of,range of,answer to,answer to",
		},
		{"a cluster that exports and is not named", func(_ *expectation, o *observation) { o.clusters = o.clusters[:1] }, "clusters of"},
		{"an answer that did not come", func(_ *expectation, o *observation) { delete(o.answers, questions[1]) }, "answer to whereami.test.svc.clusterset.local. A over tcp"},
		{"another answer", func(_ *expectation, o *observation) {
			o.answers[questions[0]].message.Answer = parse(t, whereamiName+" 5 IN A 10.0.0.1")
		}, "answer to whereami.test.svc.clusterset.local. A over udp"},
		{"another status", func(_ *expectation, o *observation) { o.answers[questions[4]].message.Rcode = dns.RcodeServerFailure }, "answer to nobody"},
		{"no SOA with NODATA", func(_ *expectation, o *observation) { o.answers[questions[2]].message.Ns = nil }, "answer to whereami.test.svc.clusterset.local. AAAA"},
		{"another type", func(_ *expectation, o *observation) { o.kind = "Headless" }, "type of"},
		{"Endpoints without one of the addresses", func(_ *expectation, o *observation) { o.classic = o.classic[1:] }, "addresses in"},
	} {
		t.Run(test.name, func(t *testing.T) {
			want, got := whereami(), right(t)
			test.spoil(&want, &got)
			var wrong []string
			for _, f := range compare(want, got) {
				if !f.right() {
					wrong = append(wrong, f.what)
				}
			}
			expected := strings.Split(test.wrong, ",")
			if test.wrong == "" {
				expected = nil
			}
			if !slices.EqualFunc(wrong, expected, strings.HasPrefix) {
				t.Errorf("wrong are %q, want %q", wrong, expected)
			}
		})
	}
}

func TestOnlyKnownWritersAreAllowed(t *testing.T) {
	list := summarize([]kubetest.AuditEvent{
		{User: "admin", Verb: "patch", Resource: "namespaces", Name: "test", Code: 201},
		{User: "admin", Verb: "patch", Resource: "services", Namespace: "test", Name: "s", Code: 201},
		{User: "admin", Verb: "list", Resource: "services", Code: 200},
		{User: syncdUser, Verb: "create", Resource: "services", Namespace: "test", Name: "s", Code: 201},
		{User: syncdUser, Verb: "create", Resource: "services", Namespace: "test", Name: "t", Code: 409},
		{User: syncdUser, Verb: "update", Resource: "serviceimports", Subresource: "status", Namespace: "test", Name: "s", Code: 200},
		{User: "dns", Verb: "create", Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews", Code: 201},
		{User: "system:kube-controller-manager", Verb: "create", Resource: "serviceaccounts", Subresource: "token", Code: 201},
		{User: serviceAccount("kube-system", "namespace-controller"), Verb: "update", Resource: "namespaces", Subresource: "finalize", Code: 200},
		{User: "stranger", Verb: "delete", Resource: "secrets", Namespace: "k8s-mcs", Name: "p", Code: 200},
	})
	want := []writer{
		{user: "admin", wrote: []string{"1 apply namespaces", "1 apply services"}, forbidden: []string{"apply services test/s"}},
		{user: "kube-controller-manager", wrote: []string{"1 create serviceaccounts/token", "1 update namespaces/finalize"}},
		{user: "stranger", wrote: []string{"1 delete secrets"}, forbidden: []string{"delete secrets k8s-mcs/p"}},
		{user: syncdUser, wrote: []string{"1 create services", "1 update serviceimports/status"}},
	}
	same := func(a, b writer) bool {
		return a.user == b.user && slices.Equal(a.wrote, b.wrote) && slices.Equal(a.forbidden, b.forbidden)
	}
	if !slices.EqualFunc(list, want, same) {
		t.Errorf("writers %+v, want %+v", list, want)
	}
}
