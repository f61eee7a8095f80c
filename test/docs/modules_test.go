package docs_test

import (
	"encoding/json"
	"os/exec"
	"testing"
)

func TestEveryDirectRequirementHasItsReason(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	var required []string
	for _, r := range mod.Require {
		if !r.Indirect {
			required = append(required, r.Path)
		}
	}
	var listed []string
	for _, row := range table(read(t, "docs", "adr", "0003-direct-requirements.md"), "") {
		if len(row) != 2 || row[1] == "" {
			t.Errorf("the row %q names no reason", row)
		}
		listed = append(listed, code.FindStringSubmatch(row[0])[1])
	}
	difference(t, "docs/adr/0003-direct-requirements.md", listed, required)
}
