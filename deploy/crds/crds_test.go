// Package crds_test compares the CRDs in this folder with those of the mcs-api
// module that go.mod names. The one in gke-compat is written by hand, as no module
// has it; it has a folder of its own because a GKE cluster has Google's.
package crds_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/mcs-api/config/crd"
)

var update = flag.Bool("update", false, "write the CRDs of the mcs-api module into this folder")

func TestCRDsAreThoseOfTheModule(t *testing.T) {
	want := map[string][]byte{
		"multicluster.x-k8s.io_serviceexports.yaml": crd.ServiceExportCRD,
		"multicluster.x-k8s.io_serviceimports.yaml": crd.ServiceImportCRD,
	}
	for name, content := range want {
		if *update {
			if err := os.WriteFile(name, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, content) {
			t.Errorf("%s differs from the one in sigs.k8s.io/mcs-api: run make generate", name)
		}
	}
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is not made by make generate", name)
		}
	}
}
