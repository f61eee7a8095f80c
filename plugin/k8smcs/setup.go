package k8smcs

import (
	"fmt"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"

	"github.com/k8s-mcs/k8s-mcs/plugin/source"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

const pluginName = "k8s_mcs"

var log = clog.NewWithPlugin(pluginName)

func init() { plugin.Register(pluginName, setup) }

func setup(c *caddy.Controller) error {
	cfg, err := parse(c)
	if err != nil {
		return plugin.Error(pluginName, err)
	}
	if cfg.legacySync {
		log.Info("Option disablelegacysync is accepted and does nothing: there is no legacy sync here")
	}
	for _, name := range cfg.uselessFallthrough() {
		log.Warningf("Option fallthrough %s has no effect: no name of %s is in that zone", name, cfg)
	}
	server := dnsserver.GetConfig(c)
	nameservers := cfg.nameservers
	if len(nameservers) == 0 {
		nameservers = boundAddresses(server.ListenHosts)
	}
	numbers := newObserver(cfg.zones[0])
	opts := source.Options{
		Config:     cfg.kube,
		Namespaces: cfg.namespaces,
		Zone: zone.Options{
			Origins:     cfg.zones,
			Nameservers: nameservers,
			Local:       cfg.localCluster,
			PreferLocal: cfg.preferLocal,
			HideEmpty:   cfg.hideEmpty,
			Reverse:     len(cfg.reverseZones) > 0,
		},
		PodNames:       cfg.podNames,
		SnapshotFile:   cfg.snapshotFile,
		SnapshotMaxAge: cfg.snapshotMaxAge,
		UserAgent:      "mcs-core-dns (CoreDNS-" + coremain.CoreVersion + ")",
		Log:            log,
		Observer:       numbers,
	}
	src, err := source.New(opts)
	if err != nil {
		return plugin.Error(pluginName, c.Errf("%v: check the kubeconfig and the files that it names", err))
	}
	p := newPlugin(cfg, src)
	position := len(server.Plugin)
	server.AddPlugin(func(plugin.Handler) plugin.Handler {
		p.Next = p.chain(server.Plugin[position+1:])
		return p
	})
	err = instanceOf(c).add(&lease{
		key: cfg.sourceKey(&opts), source: src, observer: numbers, plugin: p,
		timeout: cfg.startupTimeout, zones: cfg.String(), snapshot: cfg.snapshotFile,
		where: fmt.Sprintf("%s:%d", c.File(), cfg.line),
	})
	if err != nil {
		return plugin.Error(pluginName, errorAt(c, cfg.lines["snapshot"], err.Error()))
	}
	return nil
}
