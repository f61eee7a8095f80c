package k8smcs

import (
	"context"
	"time"

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
	src, err := source.New(source.Options{
		Config:     cfg.kube,
		Namespaces: cfg.namespaces,
		Zone:       zone.Options{Origins: cfg.zones, Nameservers: nameservers},
		UserAgent:  "mcs-core-dns (CoreDNS-" + coremain.CoreVersion + ")",
		Log:        log,
		Observer:   numbers,
	})
	if err != nil {
		return plugin.Error(pluginName, c.Errf("%v: check the kubeconfig and the files that it names", err))
	}
	p := newPlugin(cfg, src)
	position := len(server.Plugin)
	server.AddPlugin(func(plugin.Handler) plugin.Handler {
		p.Next = p.chain(server.Plugin[position+1:])
		return p
	})
	run := &runner{source: src, observer: numbers, timeout: cfg.startupTimeout, zones: cfg.String()}
	c.OnStartup(run.start)
	c.OnShutdown(run.stop)
	return nil
}

// runner runs a source between a server's start and its shutdown.
type runner struct {
	source   *source.Source
	observer *observer
	timeout  time.Duration
	zones    string // for log lines
	cancel   context.CancelFunc
}

// start begins to follow the API server and gives it some time, so that a
// server whose API server is well never answers SERVFAIL.
func (r *runner) start() error {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // caddy has no context; stop ends this one
	r.cancel = cancel
	r.observer.start()
	go r.source.Run(ctx)

	timer := time.NewTimer(r.timeout)
	defer timer.Stop()
	select {
	case <-r.source.Synced():
	case <-timer.C:
		log.Warningf("Starting without data from the API server: names of %s are answered with SERVFAIL until it is there", r.zones)
	}
	return nil
}

func (r *runner) stop() error {
	if r.cancel != nil {
		r.cancel()
		r.observer.stop()
	}
	return nil
}
