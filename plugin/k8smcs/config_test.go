package k8smcs

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"k8s.io/client-go/rest"
)

// inPod makes parse believe that it runs in a cluster.
func inPod(t *testing.T) {
	t.Helper()
	before := inCluster
	inCluster = func() (*rest.Config, error) { return &rest.Config{Host: "https://10.96.0.1"}, nil }
	t.Cleanup(func() { inCluster = before })
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const kubeconfigText = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443"}}, {name: d, cluster: {server: "https://192.0.2.2:6443"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: one, context: {cluster: c, user: u}}, {name: two, context: {cluster: d, user: u}}]
current-context: one
`

func TestParse(t *testing.T) {
	inPod(t)
	folder := t.TempDir()
	kubeconfig := writeFile(t, "kubeconfig", kubeconfigText)
	for name, c := range map[string]struct {
		block string
		check func(*config) bool
	}{
		"the zone is clusterset.local and the TTL 5 when nothing is said": {"k8s_mcs", func(c *config) bool {
			return slices.Equal(c.zones, []string{"clusterset.local."}) && c.ttl == 5 && c.startupTimeout == 5*time.Second && c.fall == nil
		}},
		"an empty block": {"k8s_mcs clusterset.local {\n}", func(c *config) bool { return len(c.zones) == 1 }},
		"several zones, in upper case, and reverse ones as networks": {
			"k8s_mcs ClusterSet.LOCAL mcs.example. in-addr.arpa ip6.arpa 10.0.0.0/8",
			func(c *config) bool {
				return slices.Equal(c.zones, []string{"clusterset.local.", "mcs.example."}) &&
					slices.Equal(c.reverseZones, []string{"in-addr.arpa.", "ip6.arpa.", "10.in-addr.arpa."})
			},
		},
		"the GKE block with a brace on the line of its last option": {
			"k8s_mcs clusterset.local in-addr.arpa ip6.arpa { fallthrough clusterset.local\n disablelegacysync }",
			func(c *config) bool { return slices.Equal(c.fall, []string{"clusterset.local."}) && c.legacySync },
		},
		"the GKE block on lines of its own": {
			"k8s_mcs clusterset.local in-addr.arpa ip6.arpa {\n fallthrough clusterset.local\n disablelegacysync\n}",
			func(c *config) bool { return len(c.reverseZones) == 2 && c.legacySync },
		},
		"a block on one line": {"k8s_mcs { ttl 30 }", func(c *config) bool { return c.ttl == 30 }},
		"ttl 0":               {"k8s_mcs {\n ttl 0\n}", func(c *config) bool { return c.ttl == 0 }},
		"ttl 3600":            {"k8s_mcs {\n ttl 3600\n}", func(c *config) bool { return c.ttl == 3600 }},
		"fallthrough for all zones": {"k8s_mcs {\n fallthrough\n}", func(c *config) bool {
			return slices.Equal(c.fall, []string{"."})
		}},
		"namespaces": {"k8s_mcs {\n namespaces shop web-1\n}", func(c *config) bool {
			return slices.Equal(c.namespaces, []string{"shop", "web-1"})
		}},
		"nameserver": {"k8s_mcs {\n nameserver 10.96.0.53 fd00::53\n}", func(c *config) bool {
			return slices.Equal(c.nameservers, []netip.Addr{netip.MustParseAddr("10.96.0.53"), netip.MustParseAddr("fd00::53")})
		}},
		"endpoint_pod_names":   {"k8s_mcs {\n endpoint_pod_names\n}", func(c *config) bool { return c.podNames }},
		"ignore empty_service": {"k8s_mcs {\n ignore empty_service\n}", func(c *config) bool { return c.hideEmpty }},
		"extended_errors":      {"k8s_mcs {\n extended_errors\n}", func(c *config) bool { return c.extendedErrors }},
		"a local_cluster of one label": {"k8s_mcs {\n local_cluster basil\n}", func(c *config) bool {
			return c.localCluster == "basil" && !c.preferLocal
		}},
		"a local_cluster of two labels, preferred before it is named": {"k8s_mcs {\n prefer local\n local_cluster basil.herbs\n}", func(c *config) bool {
			return c.localCluster == "basil.herbs" && c.preferLocal
		}},
		"a snapshot that is not there yet": {"k8s_mcs {\n snapshot " + folder + "/new\n}", func(c *config) bool {
			return c.snapshotFile == folder+"/new" && c.snapshotMaxAge == 0
		}},
		"a snapshot that is there, with an age": {"k8s_mcs {\n snapshot " + kubeconfig + " 36h\n}", func(c *config) bool {
			return c.snapshotFile == kubeconfig && c.snapshotMaxAge == 36*time.Hour
		}},
		"a snapshot with the smallest age": {"k8s_mcs {\n snapshot " + folder + "/new 1s\n}", func(c *config) bool { return c.snapshotMaxAge == time.Second }},
		"a snapshot with the greatest age": {"k8s_mcs {\n snapshot " + folder + "/new 8760h\n}", func(c *config) bool { return c.snapshotMaxAge == 8760*time.Hour }},
		"startup_timeout":                  {"k8s_mcs {\n startup_timeout 0s\n}", func(c *config) bool { return c.startupTimeout == 0 }},
		"in a cluster":                     {"k8s_mcs", func(c *config) bool { return c.kube.Host == "https://10.96.0.1" }},
		"the current context of a kubeconfig": {"k8s_mcs {\n kubeconfig " + kubeconfig + "\n}", func(c *config) bool {
			return c.kube.Host == "https://192.0.2.1:6443"
		}},
		"another context of a kubeconfig": {"k8s_mcs {\n kubeconfig " + kubeconfig + " two\n}", func(c *config) bool {
			return c.kube.Host == "https://192.0.2.2:6443"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := parse(caddy.NewTestController("dns", c.block))
			if err != nil {
				t.Fatal(err)
			}
			if !c.check(cfg) {
				t.Errorf("parsed as %+v", cfg)
			}
		})
	}
}

// names: N26.
func TestMistakesAreNamedWithTheirPlaceAndWhatWouldBeRight(t *testing.T) {
	inPod(t)
	folder := t.TempDir()
	kubeconfig := writeFile(t, "kubeconfig", kubeconfigText)
	bare := writeFile(t, "bare", strings.Replace(kubeconfigText, "current-context: one", "", 1))
	broken := writeFile(t, "broken", "{not: yaml")
	noCert := writeFile(t, "nocert", strings.Replace(kubeconfigText, "token: t", "client-certificate: /no/such/crt, client-key: /no/such/key", 1))
	for name, c := range map[string]struct {
		block string
		line  string
		words []string
	}{
		"an unknown option":                              {"k8s_mcs clusterset.local {\n  fallthru\n}", "2", []string{`"fallthru"`, "fallthrough", "startup_timeout"}},
		"an option of the kubernetes plugin":             {"k8s_mcs {\n  pods insecure\n}", "2", []string{`"pods"`, "want one of"}},
		"a block in the block":                           {"k8s_mcs {\n  ttl 5 {\n }\n}", "4", []string{"no option has a block"}},
		"kubeconfig without a file":                      {"k8s_mcs clusterset.local {\n  kubeconfig\n}", "2", []string{"kubeconfig FILE [CONTEXT]"}},
		"kubeconfig with too much":                       {"k8s_mcs {\n  kubeconfig a b c\n}", "2", []string{"kubeconfig FILE [CONTEXT]"}},
		"a kubeconfig that is not there":                 {"k8s_mcs clusterset.local {\n  kubeconfig /no/such/file\n}", "2", []string{"/no/such/file", "want the path"}},
		"a kubeconfig that does not parse":               {"k8s_mcs {\n\n  kubeconfig " + broken + "\n}", "3", []string{broken}},
		"a context that is not there":                    {"k8s_mcs {\n  kubeconfig " + kubeconfig + " three\n}", "2", []string{`"three"`, `"one"`, `"two"`}},
		"no current context":                             {"k8s_mcs {\n  kubeconfig " + bare + "\n}", "2", []string{`no context ""`, `"one"`}},
		"a certificate that is not there":                {"k8s_mcs {\n  kubeconfig " + noCert + "\n}", "2", []string{"/no/such/crt"}},
		"ttl below 0":                                    {"k8s_mcs clusterset.local {\n  ttl -1\n}", "2", []string{`"-1"`, "0 to 3600"}},
		"ttl above 3600":                                 {"k8s_mcs {\n  ttl 3601\n}", "2", []string{"0 to 3600"}},
		"ttl that is no number":                          {"k8s_mcs clusterset.local {\n  ttl abc\n}", "2", []string{`"abc"`, "0 to 3600"}},
		"ttl with a unit":                                {"k8s_mcs {\n  ttl 5s\n}", "2", []string{"whole seconds"}},
		"ttl without a number":                           {"k8s_mcs {\n  ttl\n}", "2", []string{"ttl SECONDS"}},
		"ttl with two numbers":                           {"k8s_mcs {\n  ttl 5 6\n}", "2", []string{"ttl SECONDS"}},
		"ttl twice":                                      {"k8s_mcs {\n  ttl 5\n  ttl 5\n}", "3", []string{"ttl is there twice"}},
		"fallthrough twice":                              {"k8s_mcs {\n  fallthrough\n  fallthrough clusterset.local\n}", "3", []string{"twice"}},
		"a fallthrough zone that is none":                {"k8s_mcs {\n  fallthrough a..b\n}", "2", []string{`"a..b"`}},
		"namespaces without a name":                      {"k8s_mcs {\n  namespaces\n}", "2", []string{"namespaces NAMESPACE..."}},
		"a namespace that is none":                       {"k8s_mcs {\n  namespaces Shop\n}", "2", []string{`"Shop"`, "lower-case"}},
		"a namespace twice":                              {"k8s_mcs {\n  namespaces a b a\n}", "2", []string{"a is there twice"}},
		"nameserver without an address":                  {"k8s_mcs {\n  nameserver\n}", "2", []string{"nameserver IP..."}},
		"nameserver by name":                             {"k8s_mcs {\n  nameserver ns.example\n}", "2", []string{`"ns.example"`, "IP address"}},
		"nameserver 0.0.0.0":                             {"k8s_mcs {\n  nameserver 0.0.0.0\n}", "2", []string{"0.0.0.0"}},
		"a fallthrough zone twice":                       {"k8s_mcs {\n  fallthrough a.example b.example A.example\n}", "2", []string{"a.example. is there twice"}},
		"a nameserver twice":                             {"k8s_mcs {\n  nameserver 10.96.0.53 fd00::53 10.96.0.53\n}", "2", []string{"10.96.0.53 is there twice"}},
		"endpoint_pod_names with a word":                 {"k8s_mcs {\n  endpoint_pod_names yes\n}", "2", []string{`want "endpoint_pod_names"`}},
		"endpoint_pod_names twice":                       {"k8s_mcs {\n  endpoint_pod_names\n  endpoint_pod_names\n}", "3", []string{"twice"}},
		"ignore without a word":                          {"k8s_mcs {\n  ignore\n}", "2", []string{`want "ignore empty_service"`}},
		"ignore something else":                          {"k8s_mcs {\n  ignore empty\n}", "2", []string{`"empty"`, "want empty_service"}},
		"ignore twice":                                   {"k8s_mcs {\n  ignore empty_service\n  ignore empty_service\n}", "3", []string{"twice"}},
		"local_cluster without an id":                    {"k8s_mcs {\n  local_cluster\n}", "2", []string{`want "local_cluster ID"`}},
		"local_cluster with two ids":                     {"k8s_mcs {\n  local_cluster a b\n}", "2", []string{`want "local_cluster ID"`}},
		"a local_cluster of three labels":                {"k8s_mcs {\n  local_cluster a.b.c\n}", "2", []string{"a.b.c", "two joined by a dot"}},
		"a local_cluster in upper case":                  {"k8s_mcs {\n  local_cluster Basil\n}", "2", []string{`"Basil"`}},
		"local_cluster twice":                            {"k8s_mcs {\n  local_cluster a\n  local_cluster b\n}", "3", []string{"twice"}},
		"prefer without a word":                          {"k8s_mcs {\n  prefer\n}", "2", []string{`want "prefer local"`}},
		"prefer something else":                          {"k8s_mcs {\n  local_cluster a\n  prefer remote\n}", "3", []string{`"remote"`, "want local"}},
		"prefer local without local_cluster":             {"k8s_mcs {\n  ttl 5\n  prefer local\n  extended_errors\n}", "3", []string{"prefer local", "local_cluster ID"}},
		"prefer twice":                                   {"k8s_mcs {\n  local_cluster a\n  prefer local\n  prefer local\n}", "4", []string{"twice"}},
		"extended_errors with a word":                    {"k8s_mcs {\n  extended_errors on\n}", "2", []string{`want "extended_errors"`}},
		"extended_errors twice":                          {"k8s_mcs {\n  extended_errors\n  extended_errors\n}", "3", []string{"twice"}},
		"snapshot without a file":                        {"k8s_mcs {\n  snapshot\n}", "2", []string{"snapshot FILE [MAX_AGE]"}},
		"snapshot with too much":                         {"k8s_mcs {\n  snapshot a 1h b\n}", "2", []string{"snapshot FILE [MAX_AGE]"}},
		"a snapshot without a name":                      {"k8s_mcs {\n  snapshot \"\"\n}", "2", []string{"want the path of a file"}},
		"a snapshot that is a folder":                    {"k8s_mcs {\n  snapshot " + folder + "\n}", "2", []string{folder, "is not a file"}},
		"a snapshot in a folder that is not there":       {"k8s_mcs {\n  ttl 5\n  snapshot /no/such/folder/file\n}", "3", []string{"/no/such/folder", "want a folder"}},
		"a snapshot in a folder that may not be written": {"k8s_mcs {\n  snapshot /proc/k8s_mcs\n}", "2", []string{"/proc", "may write"}},
		"a snapshot with an age without a unit":          {"k8s_mcs {\n  snapshot " + folder + "/new 24\n}", "2", []string{`"24"`, "such as 24h"}},
		"a snapshot with no age at all":                  {"k8s_mcs {\n  snapshot " + folder + "/new 0s\n}", "2", []string{"1s to 8760h"}},
		"a snapshot with an age below 0":                 {"k8s_mcs {\n  snapshot " + folder + "/new -1h\n}", "2", []string{"1s to 8760h"}},
		"a snapshot with an age above a year":            {"k8s_mcs {\n  snapshot " + folder + "/new 8761h\n}", "2", []string{"1s to 8760h"}},
		"snapshot twice":                                 {"k8s_mcs {\n  snapshot " + folder + "/a\n  snapshot " + folder + "/b\n}", "3", []string{"twice"}},
		"startup_timeout twice":                          {"k8s_mcs {\n  startup_timeout 1s\n  startup_timeout 2s\n}", "3", []string{"twice"}},
		"startup_timeout without a unit":                 {"k8s_mcs {\n  startup_timeout 5\n}", "2", []string{"such as 5s"}},
		"startup_timeout below 0":                        {"k8s_mcs {\n  startup_timeout -1s\n}", "2", []string{"0s to 5m"}},
		"startup_timeout too long":                       {"k8s_mcs {\n  startup_timeout 1h\n}", "2", []string{"0s to 5m"}},
		"disablelegacysync with a word":                  {"k8s_mcs {\n  disablelegacysync true\n}", "2", []string{`want "disablelegacysync"`}},
		"a zone that is none":                            {"k8s_mcs a..b", "1", []string{`"a..b"`, "clusterset.local"}},
		"a zone twice":                                   {"k8s_mcs clusterset.local CLUSTERSET.local.", "1", []string{"clusterset.local. is there twice"}},
		"reverse zones only":                             {"k8s_mcs in-addr.arpa ip6.arpa", "1", []string{"only reverse zones"}},
		"the plugin twice":                               {"k8s_mcs a.example\nk8s_mcs b.example", "2", []string{"k8s_mcs is there twice"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := setup(caddy.NewTestController("dns", c.block))
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, w := range append(c.words, "plugin/k8s_mcs: ", "Testfile:"+c.line+" ") {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
}

func TestOutsideAClusterTheRemedyIsNamed(t *testing.T) {
	before := inCluster
	inCluster = func() (*rest.Config, error) { return nil, rest.ErrNotInCluster }
	t.Cleanup(func() { inCluster = before })
	err := setup(caddy.NewTestController("dns", "k8s_mcs"))
	if err == nil || !strings.Contains(err.Error(), "kubeconfig FILE [CONTEXT]") {
		t.Errorf("error %v, want one that names the option", err)
	}
}

func TestUselessFallthroughZones(t *testing.T) {
	inPod(t)
	cfg, err := parse(caddy.NewTestController("dns",
		"k8s_mcs clusterset.local in-addr.arpa {\n fallthrough example.org local x.clusterset.local ip6.arpa 10.in-addr.arpa\n}"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := cfg.uselessFallthrough(), []string{"example.org.", "ip6.arpa."}; !slices.Equal(got, want) {
		t.Errorf("useless zones %q, want %q", got, want)
	}
}

func TestBoundAddresses(t *testing.T) {
	if got := boundAddresses([]string{"192.0.2.1", "fe80::1%eth0", "eth0"}); !slices.Equal(got, []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fe80::1")}) {
		t.Errorf("bound addresses %v", got)
	}
	for _, a := range boundAddresses([]string{"0.0.0.0"}) {
		if !a.Is4() || a.IsLoopback() {
			t.Errorf("%v stands for 0.0.0.0", a)
		}
	}
	for _, a := range boundAddresses([]string{""}) {
		if a.IsLoopback() || a.IsLinkLocalUnicast() {
			t.Errorf("%v stands for all addresses", a)
		}
	}
}

func TestLookingWhetherASnapshotCanBeWrittenLeavesNothingBehind(t *testing.T) {
	inPod(t)
	folder := t.TempDir()
	if _, err := parse(caddy.NewTestController("dns", "k8s_mcs {\n snapshot "+folder+"/new\n}")); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("in the folder: %v, %v", left, err)
	}
}

func TestSourceKey(t *testing.T) {
	inPod(t)
	folder := t.TempDir()
	kubeconfig := writeFile(t, "kubeconfig", kubeconfigText)
	key := func(block string) string {
		t.Helper()
		c := caddy.NewTestController("dns", block)
		if err := setup(c); err != nil {
			t.Fatal(err)
		}
		leases := instanceOf(c).leases
		return leases[len(leases)-1].key
	}
	file := "kubeconfig " + kubeconfig
	base := key("k8s_mcs clusterset.local {\n " + file + "\n namespaces a b\n}")
	for name, options := range map[string]string{
		"ttl": "ttl 30", "fallthrough": "fallthrough", "extended_errors": "extended_errors", "startup_timeout": "startup_timeout 1s",
	} {
		if got := key("k8s_mcs clusterset.local {\n " + file + "\n namespaces b a\n " + options + "\n}"); got != base {
			t.Errorf("%s does not change what is read, but the key became\n%s\nfrom\n%s", name, got, base)
		}
	}
	for name, block := range map[string]string{
		"the zone":           "k8s_mcs mcs.example {\n " + file + "\n namespaces a b\n}",
		"a reverse zone":     "k8s_mcs clusterset.local in-addr.arpa {\n " + file + "\n namespaces a b\n}",
		"the API server":     "k8s_mcs {\n namespaces a b\n}",
		"the context":        "k8s_mcs {\n " + file + " two\n namespaces a b\n}",
		"the namespaces":     "k8s_mcs {\n " + file + "\n namespaces a\n}",
		"all namespaces":     "k8s_mcs {\n " + file + "\n}",
		"endpoint_pod_names": "k8s_mcs {\n " + file + "\n namespaces a b\n endpoint_pod_names\n}",
		"ignore":             "k8s_mcs {\n " + file + "\n namespaces a b\n ignore empty_service\n}",
		"local_cluster":      "k8s_mcs {\n " + file + "\n namespaces a b\n local_cluster basil\n}",
		"prefer":             "k8s_mcs {\n " + file + "\n namespaces a b\n local_cluster basil\n prefer local\n}",
		"nameserver":         "k8s_mcs {\n " + file + "\n namespaces a b\n nameserver 10.96.0.53\n}",
		"snapshot":           "k8s_mcs {\n " + file + "\n namespaces a b\n snapshot " + folder + "/a\n}",
	} {
		if key(block) == base {
			t.Errorf("%s changes what is read, but not the key", name)
		}
	}
	if err := os.WriteFile(kubeconfig, []byte(kubeconfigText+"# another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if key("k8s_mcs clusterset.local {\n "+file+"\n namespaces a b\n}") == base {
		t.Error("the text of the kubeconfig changed, but not the key")
	}
}
