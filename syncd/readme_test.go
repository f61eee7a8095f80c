package syncd

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/syncd/config"
	"github.com/k8s-mcs/k8s-mcs/syncd/peer"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// names are the first sub-matches of a pattern, sorted, once each.
func names(text, pattern string) []string {
	var found []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestReadmeListsTheFlags(t *testing.T) {
	var usage bytes.Buffer
	_, err := config.Parse([]string{"-h"}, func(string) string { return "" }, &usage)
	if err == nil || err.Error() != flag.ErrHelp.Error() {
		t.Fatal(err)
	}
	documented, actual := names(readme(t), "(?m)^\\| `--([a-z-]+)"), names(usage.String(), `(?m)^  -([a-z-]+)`)
	if !slices.Equal(documented, actual) {
		t.Errorf("README lists %v, syncd has %v", documented, actual)
	}
}

func TestReadmeListsTheMetrics(t *testing.T) {
	clients, err := watch.NewClients(&rest.Config{Host: "https://nowhere.example"})
	if err != nil {
		t.Fatal(err)
	}
	s := newSyncer(config.Config{ClusterID: "east"}, clients, slog.New(slog.DiscardHandler))
	described := make(chan *prometheus.Desc, 100)
	s.metrics.writes.Describe(described)
	s.metrics.syncs.Describe(described)
	stateCollector{s}.Describe(described)
	close(described)
	var text strings.Builder
	for d := range described {
		fmt.Fprintln(&text, d)
	}
	documented, actual := names(readme(t), "(?m)^\\| `(mcs_[a-z_]+)`"), names(text.String(), `fqName: "([a-z_]+)"`)
	if !slices.Equal(documented, actual) {
		t.Errorf("README lists %v, syncd has %v", documented, actual)
	}
}

func TestReadmeSecretIsOneThatSyncdTakes(t *testing.T) {
	_, after, _ := strings.Cut(readme(t), "```yaml\n")
	manifest, _, _ := strings.Cut(after, "```")
	var secret corev1.Secret
	if err := yaml.UnmarshalStrict([]byte(manifest), &secret); err != nil {
		t.Fatal(err)
	}
	secret.Data = map[string][]byte{}
	for k, v := range secret.StringData {
		secret.Data[k] = []byte(v)
	}
	if c, err := peer.Credential(&secret); err != nil || c.Host == "" {
		t.Errorf("credential is %v, %v", c, err)
	}
}
