package kubetest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// helperEnv makes the test binary the owner of a run that a test then kills.
// Its value is the folder of the repository.
const helperEnv = "KUBETEST_HELPER"

func TestMain(m *testing.M) {
	if root := os.Getenv(helperEnv); root != "" {
		if err := ownRun(context.Background(), root); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// helperReport is what the owner of a run says about it.
type helperReport struct {
	Dir  string
	Pids []int
}

// ownRun starts a cluster with controllers and a plain child, says so on
// standard output, and stays until it is killed.
func ownRun(ctx context.Context, root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	b, err := NewBed(ctx, os.Stderr)
	if err != nil {
		return err
	}
	clusters, err := b.StartClusters(ctx, ClusterConfig{Name: "orphan", Controllers: true})
	if err != nil {
		return err
	}
	child, err := b.Run(ctx, "sleep", []string{"sleep", "1000"})
	if err != nil {
		return err
	}
	report := helperReport{Dir: b.Dir(), Pids: append(clusters[0].Pids(), child.Pid())}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return err
	}
	select {}
}
