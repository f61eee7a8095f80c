package k8smcs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/coredns/coredns/plugin"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

const (
	maxTTL         = 3600
	maxStartup     = 5 * time.Minute
	minSnapshotAge = time.Second
	maxSnapshotAge = 365 * 24 * time.Hour
)

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
	"kubeconfig":         {"kubeconfig FILE [CONTEXT]", 1, 2, parseKubeconfig},
	"namespaces":         {"namespaces NAMESPACE...", 1, many, parseNamespaces},
	"ttl":                {"ttl SECONDS", 1, 1, parseTTL},
	"fallthrough":        {"fallthrough [ZONES...]", 0, many, parseFallthrough},
	"endpoint_pod_names": {"endpoint_pod_names", 0, 0, parseEndpointPodNames},
	"ignore":             {"ignore empty_service", 1, 1, parseIgnore},
	"local_cluster":      {"local_cluster ID", 1, 1, parseLocalCluster},
	"prefer":             {"prefer local", 1, 1, parsePrefer},
	"extended_errors":    {"extended_errors", 0, 0, parseExtendedErrors},
	"snapshot":           {"snapshot FILE [MAX_AGE]", 1, 2, parseSnapshot},
	"nameserver":         {"nameserver IP...", 1, many, parseNameserver},
	"startup_timeout":    {"startup_timeout DURATION", 1, 1, parseStartupTimeout},
	"disablelegacysync":  {"disablelegacysync", 0, 0, parseDisableLegacySync},
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
	text, err := os.ReadFile(file) //nolint:gosec // the operator's choice, read before
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.cluster = fmt.Sprintf("kubeconfig %q %q %x", file, context, sha256.Sum256(text))
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
		for _, name := range names {
			if slices.Contains(cfg.fall, name) {
				return fmt.Errorf("zone %s is there twice: want it once", name)
			}
			cfg.fall = append(cfg.fall, name)
		}
	}
	return nil
}

func parseNameserver(cfg *config, args []string) error {
	for _, arg := range args {
		addr, err := netip.ParseAddr(arg)
		if err != nil || addr.Zone() != "" || addr.IsUnspecified() || addr.IsMulticast() {
			return fmt.Errorf("%q: want the IP address at which clients reach this server", arg)
		}
		if slices.Contains(cfg.nameservers, addr.Unmap()) {
			return fmt.Errorf("%s is there twice: want it once", addr)
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

func parseEndpointPodNames(cfg *config, _ []string) error {
	cfg.podNames = true
	return nil
}

func parseIgnore(cfg *config, args []string) error {
	if args[0] != "empty_service" {
		return fmt.Errorf("%q cannot be ignored: want empty_service", args[0])
	}
	cfg.hideEmpty = true
	return nil
}

func parseLocalCluster(cfg *config, args []string) error {
	id, err := mcs.ParseClusterID(args[0])
	if err != nil {
		return err
	}
	cfg.localCluster = id
	return nil
}

func parsePrefer(cfg *config, args []string) error {
	if args[0] != "local" {
		return fmt.Errorf("%q cannot be preferred: want local", args[0])
	}
	cfg.preferLocal = true
	return nil
}

func parseExtendedErrors(cfg *config, _ []string) error {
	cfg.extendedErrors = true
	return nil
}

func parseSnapshot(cfg *config, args []string) error {
	if len(args) == 2 {
		age, err := time.ParseDuration(args[1])
		if err != nil || age < minSnapshotAge || age > maxSnapshotAge {
			return fmt.Errorf("%q: want the greatest age as a duration from %s to %s, such as 24h", args[1], minSnapshotAge, maxSnapshotAge)
		}
		cfg.snapshotMaxAge = age
	}
	file, err := filepath.Abs(args[0])
	if err != nil {
		return fmt.Errorf("%q: %w: want the path of a file", args[0], err)
	}
	if info, err := os.Stat(file); args[0] == "" || err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%q is not a file: want the path of a file, which need not be there yet", args[0])
	}
	if err := checkWritable(filepath.Dir(file)); err != nil {
		return err
	}
	cfg.snapshotFile = file
	return nil
}

// checkWritable looks whether a snapshot can be put into a folder, so that this
// is said at the start and not when it is missed.
func checkWritable(dir string) error {
	probe, err := os.CreateTemp(dir, ".k8s_mcs-*")
	if err != nil {
		return fmt.Errorf("%w: want a folder that is there and that this process may write to, such as a mounted volume", err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}
