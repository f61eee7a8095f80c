package k8smcs

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"k8s.io/client-go/rest"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

const (
	defaultZone    = "clusterset.local."
	defaultTTL     = 5
	defaultStartup = 5 * time.Second
)

// config is what one k8s_mcs block of a Corefile says.
type config struct {
	line           int            // where the block begins
	lines          map[string]int // where each option that is there is
	zones          []string       // absolute, lower case, without reverse zones; never empty
	reverseZones   []string
	kube           *rest.Config
	cluster        string   // what kube was made of, for sourceKey
	namespaces     []string // empty means all
	ttl            uint32   // seconds
	fall           []string // zones whose missing names go to the next plugin
	podNames       bool
	hideEmpty      bool          // a ClusterSetIP import without ready endpoint has no name
	localCluster   mcs.ClusterID // empty when not said
	preferLocal    bool
	nameservers    []netip.Addr
	extendedErrors bool
	snapshotFile   string        // absolute; empty for none
	snapshotMaxAge time.Duration // 0 means any
	startupTimeout time.Duration
	// legacySync is set by disablelegacysync, which does nothing else.
	legacySync bool
}

// inCluster is replaced by tests, which do not run in a pod.
var inCluster = rest.InClusterConfig

// parse reads the one k8s_mcs block of a server block. Errors name file, line
// and what would be right.
func parse(c *caddy.Controller) (*config, error) {
	c.Next() // k8s_mcs
	cfg := &config{line: c.Line(), lines: map[string]int{}, ttl: defaultTTL, startupTimeout: defaultStartup}
	if err := parseZones(cfg, c, c.RemainingArgs()); err != nil {
		return nil, err
	}
	for end := false; !end && c.NextBlock(); {
		name := c.Val()
		opt, ok := options[name]
		if !ok {
			return nil, c.Errf("unknown option %q: want one of %s", name, strings.Join(slices.Sorted(maps.Keys(options)), ", "))
		}
		if cfg.lines[name] > 0 {
			return nil, c.Errf("option %s is there twice: want it once at most", name)
		}
		cfg.lines[name] = c.Line()
		args := c.RemainingArgs()
		// The published GKE Corefile may close the block on the line of its last option.
		if last := len(args) - 1; last >= 0 && args[last] == "}" {
			args, end = args[:last], true
		}
		if len(args) < opt.min || len(args) > opt.max {
			return nil, c.Errf("%s: wrong number of arguments (%d): want %q", name, len(args), opt.syntax)
		}
		if err := opt.parse(cfg, args); err != nil {
			return nil, c.Errf("%s: %v", name, err)
		}
	}
	if c.Next() {
		if c.Val() == pluginName {
			return nil, c.Errf("k8s_mcs is there twice: want it once in a server block; give all zones to one")
		}
		return nil, c.Errf("unexpected %q: no option has a block of its own", c.Val())
	}
	if cfg.preferLocal && cfg.localCluster == "" {
		return nil, errorAt(c, cfg.lines["prefer"], "prefer local: this cluster has no id: want the option local_cluster ID too")
	}
	if cfg.kube == nil {
		kube, err := inCluster()
		if err != nil {
			return nil, c.Errf("no API server to read from: %v; outside a cluster, give the option kubeconfig FILE [CONTEXT]", err)
		}
		cfg.kube = kube
		cfg.cluster = "in-cluster " + kube.Host
	}
	return cfg, nil
}

// errorAt is c.Errf for a line that c has passed.
func errorAt(c *caddy.Controller, line int, what string) error {
	return fmt.Errorf("%s:%d - Error during parsing: %s", c.File(), line, what)
}

func parseZones(cfg *config, c *caddy.Controller, args []string) error {
	if len(args) == 0 {
		args = []string{defaultZone}
	}
	for _, arg := range args {
		names := plugin.Host(arg).NormalizeExact()
		if len(names) == 0 {
			return c.Errf("%q is not a zone: want a domain name such as clusterset.local", arg)
		}
		for _, name := range names {
			if slices.Contains(cfg.zones, name) || slices.Contains(cfg.reverseZones, name) {
				return c.Errf("zone %s is there twice: want it once", name)
			}
			if isReverse(name) {
				cfg.reverseZones = append(cfg.reverseZones, name)
			} else {
				cfg.zones = append(cfg.zones, name)
			}
		}
	}
	if len(cfg.zones) == 0 {
		return c.Errf("only reverse zones: want also the zone of the services, such as clusterset.local")
	}
	return nil
}

func isReverse(zoneName string) bool {
	for _, tree := range []string{"in-addr.arpa.", "ip6.arpa."} {
		if _, ok := zone.Cut(zoneName, tree); ok {
			return true
		}
	}
	return false
}

// uselessFallthrough lists the zones after fallthrough that no name of the
// plugin is in.
func (cfg *config) uselessFallthrough() (useless []string) {
	for _, fall := range cfg.fall {
		related := func(z string) bool {
			_, below := zone.Cut(fall, z)
			_, above := zone.Cut(z, fall)
			return below || above
		}
		if !slices.ContainsFunc(slices.Concat(cfg.zones, cfg.reverseZones), related) {
			useless = append(useless, fall)
		}
	}
	return useless
}

// String names the zones, for log lines.
func (cfg *config) String() string {
	return strings.Join(slices.Concat(cfg.zones, cfg.reverseZones), " ")
}
