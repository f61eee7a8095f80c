package imports

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/k8s-mcs/k8s-mcs/"

// deciding lists the packages that take values and return values, with what
// each may import beside the standard library. All must exist.
var deciding = map[string][]string{
	"internal/mcs":     nil,
	"internal/mcs/api": apiTypes,
	"plugin/zone":      {module + "internal/mcs$"},
	"syncd/model":      {module + "internal/mcs$"},
	"syncd/merge":      append([]string{module + "internal/mcs", module + "syncd/model$"}, apiTypes...),
	"syncd/policy":     append([]string{module + "internal/mcs$", module + "syncd/model$", module + "syncd/plan$"}, apiTypes...),
	"syncd/plan":       append([]string{module + "internal/mcs", module + "syncd/model$"}, apiTypes...),
}

// apiTypes are the modules of types and of the pure helpers that Kubernetes
// itself uses. They reach net/http and log on their own, which is why those
// are looked for in our own files only.
var apiTypes = []string{
	"k8s.io/api",
	"k8s.io/apimachinery",
	"sigs.k8s.io/mcs-api/pkg/apis",
	"k8s.io/endpointslice/trafficdist",
	"k8s.io/endpointslice/topologycache",
}

// acting lists the packages with clients, goroutines and logs. A package of
// plugin, syncd or internal that is in neither list fails the test, so that
// nobody adds one without having decided which it is.
var acting = []string{
	"internal/watch",
	"plugin/internal/apitest", // a fake API server, for tests
	"plugin/k8smcs",
	"plugin/snapshot",
	"plugin/source",
	"syncd",
	"syncd/config",
	"syncd/peer",
	"syncd/apply",
	"syncd/status",
}

// dnsServer is what only the CoreDNS shell and its main may import.
var dnsServer = []string{"github.com/coredns", "github.com/miekg/dns"}

// clouds are modules that CoreDNS's stock plugins bring and that syncd must
// never link: some of their authors, and the hubs that lead to the others.
var clouds = []string{
	"cloud.google.com/go", "google.golang.org/api", "github.com/googleapis",
	"github.com/aws", "github.com/Azure", "github.com/DataDog", "github.com/hashicorp",
	"github.com/caddyserver", "github.com/quic-go", "go.etcd.io", "google.golang.org/grpc",
}

func TestPackagesThatDecideImportNothingThatActs(t *testing.T) {
	packages := list(t)
	unreachable := slices.Concat(dnsServer, clouds, []string{"k8s.io/client-go", "github.com/prometheus", module + "cmd", module + "test"})
	for _, shell := range acting {
		unreachable = append(unreachable, module+shell+"$")
	}
	for name, allowed := range deciding {
		t.Run(name, func(t *testing.T) {
			p, ok := packages[name]
			if !ok {
				t.Fatalf("there is no package %s: it is on the list of those that decide", name)
			}
			for _, file := range p.GoFiles {
				src, err := os.ReadFile(filepath.Join(p.Dir, file))
				if err != nil {
					t.Fatal(err)
				}
				found, err := Source(name+"/"+file, src, allowed)
				if err != nil {
					t.Fatal(err)
				}
				for _, line := range found {
					t.Error(line)
				}
			}
			for _, dep := range Reach(p.Deps, unreachable) {
				t.Errorf("%s reaches %s", name, dep)
			}
		})
	}
}

func TestEveryPackageIsKnownToDecideOrToAct(t *testing.T) {
	packages := list(t)
	for name := range packages {
		top, _, _ := strings.Cut(name, "/")
		if !slices.Contains([]string{"plugin", "syncd", "internal"}, top) {
			continue
		}
		if _, pure := deciding[name]; !pure && !slices.Contains(acting, name) {
			t.Errorf("package %s is neither among those that decide nor among those that act: add it to one of the lists here", name)
		}
	}
}

func TestTheTwoHalvesNeverImportEachOther(t *testing.T) {
	for name, p := range list(t) {
		all := slices.Concat(p.Imports, p.TestImports, p.XTestImports, p.Deps)
		for half, other := range map[string]string{"plugin": "syncd", "syncd": "plugin"} {
			if name != half && !strings.HasPrefix(name, half+"/") {
				continue
			}
			for _, dep := range Reach(all, []string{module + other}) {
				t.Errorf("%s reaches %s: the contract between the halves is Kubernetes objects", name, dep)
			}
		}
		if strings.HasPrefix(name, "test/") {
			continue
		}
		for _, dep := range Reach(p.Deps, []string{module + "test"}) {
			t.Errorf("%s reaches %s: the product does not depend on its tests", name, dep)
		}
	}
}

func TestOnlyTheShellKnowsCoreDNS(t *testing.T) {
	packages := list(t)
	for name, p := range packages {
		if name == "plugin/k8smcs" || name == "cmd/mcs-core-dns" || strings.HasPrefix(name, "test/") {
			continue
		}
		for _, dep := range Reach(p.Imports, dnsServer) {
			t.Errorf("%s imports %s", name, dep)
		}
	}
	if p := packages["plugin/k8smcs"]; len(Reach(p.Imports, dnsServer)) == 0 {
		t.Error("plugin/k8smcs imports no CoreDNS: this test looks at the wrong package")
	}
}

func TestSyncdLinksNoDNSServerAndNoCloud(t *testing.T) {
	packages := list(t)
	syncd, ok := packages["cmd/syncd"]
	if !ok {
		t.Fatal("there is no package cmd/syncd")
	}
	for _, dep := range Reach(syncd.Deps, slices.Concat(dnsServer, clouds)) {
		t.Errorf("cmd/syncd links %s", dep)
	}
	server, ok := packages["cmd/mcs-core-dns"]
	if !ok {
		t.Fatal("there is no package cmd/mcs-core-dns")
	}
	if len(Reach(server.Deps, dnsServer)) == 0 || len(Reach(server.Deps, clouds)) == 0 {
		t.Error("cmd/mcs-core-dns links no DNS server or no cloud module: this test can no longer tell")
	}
}

// list asks the go command for every package of the root module and returns
// them by path within the module.
func list(t *testing.T) map[string]Package {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,GoFiles,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the packages of the module: %v", err)
	}
	packages := map[string]Package{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p Package
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("read the answer of go list: %v", err)
		}
		packages[strings.TrimPrefix(p.ImportPath, module)] = p
	}
	if len(packages) == 0 {
		t.Fatal("go list names no package")
	}
	return packages
}
