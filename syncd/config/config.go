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
	"time"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/policy"
)

// Config is a checked configuration.
type Config struct {
	// ClusterID is this cluster's id in the clusterset; "" means that a
	// ClusterProperty of the cluster has it.
	ClusterID mcs.ClusterID
	// Kubeconfig is the file for this cluster's API server; "" means in-cluster.
	Kubeconfig string
	// Namespace is where the peer Secrets are.
	Namespace string
	// Namespaces are those that take no part.
	Namespaces policy.Namespaces
	// DerivedPrefix begins the names of derived Services.
	DerivedPrefix string
	// Listen is where /healthz, /readyz and /metrics are served, host:port.
	Listen string
	// How long peers are waited for, and what becomes of those that are lost; the
	// annotations of a peer Secret come before StaleAfter and OnLost.
	ProbeInterval, StaleAfter, RecoverHold time.Duration
	OnLost                                 policy.OnLost
	// BrakeWindow and BrakeRelease are for many withdrawals at once.
	BrakeWindow, BrakeRelease time.Duration
	// Bounds are how much is taken over from one peer.
	Bounds policy.Bounds
	// Prefer is when own endpoints come first, unless the ServiceExport says so.
	Prefer policy.Prefer
	// LeaderElect lets several replicas run, of which one writes. The others take
	// over when it has said nothing for LeaseDuration.
	LeaderElect   bool
	LeaseDuration time.Duration
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
		onLost, prefer   string
		denied, allowed  string
		defaultNamespace = "k8s-mcs"
	)
	if pod := getenv("POD_NAMESPACE"); pod != "" {
		defaultNamespace = pod
	}
	flags := flag.NewFlagSet("syncd", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&id, "cluster-id", "", "this cluster's `id` in the clusterset: one DNS label, or two joined by a dot; empty means that the ClusterProperty cluster.clusterset.k8s.io has it")
	flags.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig `file` for this cluster; empty means in-cluster")
	flags.StringVar(&c.Namespace, "namespace", defaultNamespace, "`namespace` of the peer Secrets; $POD_NAMESPACE sets the default")
	flags.StringVar(&denied, "denied-namespaces", policy.DeniedByDefault, "`names` of namespaces, or beginnings such as kube-*, with commas between: nothing is exported from them and nothing imported into them")
	flags.StringVar(&allowed, "allow-namespaces", "", "`names` of namespaces, with commas between, that take part although they are denied")
	flags.StringVar(&c.DerivedPrefix, "derived-prefix", mcs.DefaultDerivedPrefix, "`prefix` of the names of derived Services; gke-mcs- gives the names that GKE gives")
	flags.StringVar(&c.Listen, "listen", ":8080", "`address` that serves /healthz, /readyz and /metrics")
	flags.DurationVar(&c.ProbeInterval, "probe-interval", 5*time.Second, "`time` between two probes of a peer; one that takes more than three fifths of it has failed")
	flags.DurationVar(&c.StaleAfter, "stale-after", 5*time.Minute, "`time` without a sign of life after which a peer is lost")
	flags.StringVar(&onLost, "on-lost", string(policy.Fallback), "`policy` for the endpoints of a lost peer: keep, fallback or withdraw")
	flags.DurationVar(&c.RecoverHold, "recover-hold", 30*time.Second, "`time` that a lost peer must be alive before it counts again")
	flags.DurationVar(&c.BrakeWindow, "brake-window", 30*time.Second, "`time` within which a peer's withdrawals count together: more than half of its exports, and at least 5, are held")
	flags.DurationVar(&c.BrakeRelease, "brake-release", 10*time.Minute, "`time` that too many withdrawals at once are held")
	flags.IntVar(&c.Bounds.Exports, "max-exports", 5000, "greatest `number` of exports taken over from one peer; 0 is no bound")
	flags.IntVar(&c.Bounds.Slices, "max-slices", 20000, "greatest `number` of EndpointSlices of these exports")
	flags.IntVar(&c.Bounds.Endpoints, "max-endpoints", 200000, "greatest `number` of endpoints of these exports")
	flags.StringVar(&prefer, "prefer", "none", "`when` own endpoints are enough and those of peers are held back: none, local, local:N or local:N%")
	flags.BoolVar(&c.LeaderElect, "leader-elect", true, "let one of several replicas write")
	flags.DurationVar(&c.LeaseDuration, "lease-duration", 15*time.Second, "`time` after which another replica takes over from one that says nothing")
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
	if id != "" {
		if c.ClusterID, err = mcs.ParseClusterID(id); err != nil {
			bad("cluster-id", err)
		}
	}
	if c.Namespaces.Denied, err = policy.ParseDenied(denied); err != nil {
		bad("denied-namespaces", err)
	}
	if c.Namespaces.Allowed, err = policy.ParseAllowed(allowed); err != nil {
		bad("allow-namespaces", err)
	}
	if c.OnLost, err = policy.ParseOnLost(onLost); err != nil {
		bad("on-lost", err)
	}
	for name, n := range map[string]int{"max-exports": c.Bounds.Exports, "max-slices": c.Bounds.Slices, "max-endpoints": c.Bounds.Endpoints} {
		if n < 0 {
			bad(name, fmt.Errorf("%d: want 0 or more", n))
		}
	}
	if c.Prefer, err = policy.ParsePrefer(prefer); err != nil {
		bad("prefer", err)
	}
	for name, d := range map[string]struct{ have, least time.Duration }{
		"probe-interval": {c.ProbeInterval, 100 * time.Millisecond},
		"stale-after":    {c.StaleAfter, c.ProbeInterval},
		"recover-hold":   {c.RecoverHold, 0},
		"brake-window":   {c.BrakeWindow, time.Second},
		"brake-release":  {c.BrakeRelease, time.Second},
		"lease-duration": {c.LeaseDuration, time.Second},
	} {
		if d.have < d.least {
			bad(name, fmt.Errorf("%s: want at least %s", d.have, d.least))
		}
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
