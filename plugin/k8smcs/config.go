package k8smcs

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

const (
	defaultZone    = "clusterset.local."
	defaultTTL     = 5
	defaultStartup = 5 * time.Second

	maxTTL     = 3600
	maxStartup = 5 * time.Minute
)

// config is what one k8s_mcs block of a Corefile says.
type config struct {
	zones          []string // absolute, lower case, without reverse zones; never empty
	reverseZones   []string
	kube           *rest.Config
	namespaces     []string // empty means all
	ttl            uint32   // seconds
	fall           []string // zones whose missing names go to the next plugin
	nameservers    []netip.Addr
	startupTimeout time.Duration
	// legacySync is set by disablelegacysync, which does nothing else.
	legacySync bool
}

// option is a line of a k8s_mcs block.
type option struct {
	syntax   string
	min, max int // number of arguments
	parse    func(cfg *config, args []string) error
}

// many is a number of arguments without a limit.
const many = math.MaxInt

// options is every option by name.
var options = map[string]option{
	"kubeconfig":        {"kubeconfig FILE [CONTEXT]", 1, 2, parseKubeconfig},
	"namespaces":        {"namespaces NAMESPACE...", 1, many, parseNamespaces},
	"ttl":               {"ttl SECONDS", 1, 1, parseTTL},
	"fallthrough":       {"fallthrough [ZONES...]", 0, many, parseFallthrough},
	"nameserver":        {"nameserver IP...", 1, many, parseNameserver},
	"startup_timeout":   {"startup_timeout DURATION", 1, 1, parseStartupTimeout},
	"disablelegacysync": {"disablelegacysync", 0, 0, parseDisableLegacySync},
}

// inCluster is replaced by tests, which do not run in a pod.
var inCluster = rest.InClusterConfig

// parse reads the one k8s_mcs block of a server block. Errors name file, line
// and what would be right.
func parse(c *caddy.Controller) (*config, error) {
	c.Next() // k8s_mcs
	cfg := &config{ttl: defaultTTL, startupTimeout: defaultStartup}
	if err := parseZones(cfg, c, c.RemainingArgs()); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for end := false; !end && c.NextBlock(); {
		name := c.Val()
		opt, ok := options[name]
		if !ok {
			return nil, c.Errf("unknown option %q: want one of %s", name, strings.Join(slices.Sorted(maps.Keys(options)), ", "))
		}
		if seen[name] {
			return nil, c.Errf("option %s is there twice: want it once at most", name)
		}
		seen[name] = true
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
	if cfg.kube == nil {
		kube, err := inCluster()
		if err != nil {
			return nil, c.Errf("no API server to read from: %v; outside a cluster, give the option kubeconfig FILE [CONTEXT]", err)
		}
		cfg.kube = kube
	}
	return cfg, nil
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

func parseKubeconfig(cfg *config, args []string) error {
	file, overrides := args[0], &clientcmd.ConfigOverrides{}
	if len(args) == 2 {
		overrides.CurrentContext = args[1]
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: file}, overrides)
	raw, err := loader.RawConfig()
	if err != nil {
		return fmt.Errorf("%w: want the path of a kubeconfig file that this process can read", err)
	}
	context := raw.CurrentContext
	if len(args) == 2 {
		context = args[1]
	}
	if _, ok := raw.Contexts[context]; !ok {
		return fmt.Errorf("%s has no context %q: want one of %q, as current-context or after the file name",
			file, context, slices.Sorted(maps.Keys(raw.Contexts)))
	}
	if cfg.kube, err = loader.ClientConfig(); err != nil {
		return fmt.Errorf("%s, context %q: %w", file, context, err)
	}
	return nil
}

func parseNamespaces(cfg *config, args []string) error {
	for _, arg := range args {
		if !zone.IsLabel(arg) {
			return fmt.Errorf("%q is not the name of a namespace: want lower-case letters, digits and '-'", arg)
		}
		if slices.Contains(cfg.namespaces, arg) {
			return fmt.Errorf("%s is there twice: want it once", arg)
		}
		cfg.namespaces = append(cfg.namespaces, arg)
	}
	return nil
}

func parseTTL(cfg *config, args []string) error {
	ttl, err := strconv.ParseUint(args[0], 10, 32)
	if err != nil || ttl > maxTTL {
		return fmt.Errorf("%q: want whole seconds from 0 to %d", args[0], maxTTL)
	}
	cfg.ttl = uint32(ttl)
	return nil
}

func parseFallthrough(cfg *config, args []string) error {
	if len(args) == 0 {
		cfg.fall = []string{"."}
		return nil
	}
	for _, arg := range args {
		names := plugin.Host(arg).NormalizeExact()
		if len(names) == 0 {
			return fmt.Errorf("%q is not a zone: want domain names, or nothing for all zones", arg)
		}
		cfg.fall = append(cfg.fall, names...)
	}
	return nil
}

func parseNameserver(cfg *config, args []string) error {
	for _, arg := range args {
		addr, err := netip.ParseAddr(arg)
		if err != nil || addr.Zone() != "" || addr.IsUnspecified() || addr.IsMulticast() {
			return fmt.Errorf("%q: want the IP address at which clients reach this server", arg)
		}
		cfg.nameservers = append(cfg.nameservers, addr.Unmap())
	}
	return nil
}

func parseStartupTimeout(cfg *config, args []string) error {
	d, err := time.ParseDuration(args[0])
	if err != nil || d < 0 || d > maxStartup {
		return fmt.Errorf("%q: want a duration from 0s to %s, such as 5s", args[0], maxStartup)
	}
	cfg.startupTimeout = d
	return nil
}

func parseDisableLegacySync(cfg *config, _ []string) error {
	cfg.legacySync = true
	return nil
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
