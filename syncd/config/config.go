// Package config is what syncd can be told: flags and a few environment
// variables, checked before anything starts.
package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// Config is a checked configuration.
type Config struct {
	// ClusterID is this cluster's id in the clusterset.
	ClusterID mcs.ClusterID
	// Kubeconfig is the file for this cluster's API server; "" means in-cluster.
	Kubeconfig string
	// Namespace is where the peer Secrets are.
	Namespace string
	// DerivedPrefix begins the names of derived Services.
	DerivedPrefix string
	// Listen is where /healthz, /readyz and /metrics are served, host:port.
	Listen string
	// GKECompat takes exports of net.gke.io too, and writes what GKE shows.
	GKECompat bool
	// LogLevel and LogFormat ("json", "text") are for the log on stderr.
	LogLevel  slog.Level
	LogFormat string
	// ShowVersion asks for the version and nothing else.
	ShowVersion bool
}

// maxPrefix leaves room for the hash in a Service's name of 63 characters.
const maxPrefix = 63 - 10

// Parse reads arguments; getenv is os.Getenv or a stand-in. All problems are
// reported together, each with what would be right. flag.ErrHelp asks for no
// more than the usage, which has then been written to usage.
func Parse(args []string, getenv func(string) string, usage io.Writer) (Config, error) {
	var (
		c                Config
		id, level        string
		defaultNamespace = "k8s-mcs"
	)
	if pod := getenv("POD_NAMESPACE"); pod != "" {
		defaultNamespace = pod
	}
	flags := flag.NewFlagSet("syncd", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&id, "cluster-id", "", "this cluster's `id` in the clusterset: one DNS label, or two joined by a dot (required)")
	flags.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig `file` for this cluster; empty means in-cluster")
	flags.StringVar(&c.Namespace, "namespace", defaultNamespace, "`namespace` of the peer Secrets; $POD_NAMESPACE sets the default")
	flags.StringVar(&c.DerivedPrefix, "derived-prefix", mcs.DefaultDerivedPrefix, "`prefix` of the names of derived Services; gke-mcs- gives the names that GKE gives")
	flags.StringVar(&c.Listen, "listen", ":8080", "`address` that serves /healthz, /readyz and /metrics")
	flags.BoolVar(&c.GKECompat, "gke-compat", false, "also take ServiceExports of net.gke.io/v1, and write the annotations and Endpoints that GKE shows")
	flags.StringVar(&level, "log-level", "info", "least `level` that is logged: debug, info, warn or error")
	flags.StringVar(&c.LogFormat, "log-format", "json", "`format` of the log: json or text")
	flags.BoolVar(&c.ShowVersion, "version", false, "print the version and exit")
	if err := flags.Parse(args); err != nil {
		return Config{}, err
	}
	if c.ShowVersion {
		return c, nil
	}

	var problems []error
	bad := func(name string, err error) { problems = append(problems, fmt.Errorf("--%s: %w", name, err)) }
	if flags.NArg() > 0 {
		problems = append(problems, fmt.Errorf("unexpected argument %q: syncd takes flags only", flags.Arg(0)))
	}
	var err error
	if c.ClusterID, err = mcs.ParseClusterID(id); err != nil {
		bad("cluster-id", err)
	}
	if c.Namespace == "" {
		bad("namespace", errors.New("is empty: name the namespace of the peer Secrets"))
	}
	if err := checkPrefix(c.DerivedPrefix); err != nil {
		bad("derived-prefix", err)
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		bad("listen", fmt.Errorf("%w: want host:port, or :port for all addresses", err))
	}
	if err := c.LogLevel.UnmarshalText([]byte(level)); err != nil {
		bad("log-level", fmt.Errorf("%q: want debug, info, warn or error", level))
	}
	if c.LogFormat != "json" && c.LogFormat != "text" {
		bad("log-format", fmt.Errorf("%q: want json or text", c.LogFormat))
	}
	return c, errors.Join(problems...)
}

// checkPrefix makes sure that a prefix and a hash are a Service's name: it begins
// with a letter, as the Service may be read as an environment variable's stem.
func checkPrefix(prefix string) error {
	switch {
	case prefix == "":
		return errors.New("is empty: want something like " + mcs.DefaultDerivedPrefix)
	case len(prefix) > maxPrefix:
		return fmt.Errorf("%q has %d characters: at most %d are allowed", prefix, len(prefix), maxPrefix)
	case prefix[0] < 'a' || prefix[0] > 'z' || !onlyNameCharacters(prefix):
		return fmt.Errorf("%q: want lower-case letters, digits and '-', beginning with a letter", prefix)
	}
	return nil
}

func onlyNameCharacters(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	}) < 0
}
