package k8smcs

import (
	"context"
	"strings"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/request"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

// labels are what the metadata plugin is told of a name in a zone of services.
// Where the kubernetes plugin has such a label, ours is called the same.
var labels = map[string]func(*Plugin, zone.Query) string{
	pluginName + "/namespace": func(_ *Plugin, q zone.Query) string { return q.Namespace },
	pluginName + "/service":   func(_ *Plugin, q zone.Query) string { return strings.TrimSuffix(q.Service, "."+q.Namespace) },
	pluginName + "/cluster":   func(_ *Plugin, q zone.Query) string { _, cluster := endpointOf(q); return cluster },
	pluginName + "/endpoint":  func(_ *Plugin, q zone.Query) string { host, _ := endpointOf(q); return host },
	pluginName + "/port-name": func(_ *Plugin, q zone.Query) string { port, _ := portOf(q); return port },
	pluginName + "/protocol":  func(_ *Plugin, q zone.Query) string { _, protocol := portOf(q); return protocol },
	pluginName + "/type":      typeOf,
}

// Metadata implements metadata.Provider. The values are worked out when they
// are asked for.
func (p *Plugin) Metadata(ctx context.Context, state request.Request) context.Context {
	z, rel := p.match(state.Req)
	if z == nil || z.origin == noOrigin {
		return ctx
	}
	for label, value := range labels {
		metadata.SetValueFunc(ctx, label, func() string { return value(p, zone.Parse(rel)) })
	}
	return ctx
}

// endpointOf splits "H.C", or "C" alone. Two labels are read as a host and a
// cluster of one label: a cluster of two has no records of its own.
func endpointOf(q zone.Query) (host, cluster string) {
	if q.Form != zone.FormEndpoint {
		return "", ""
	}
	host, cluster, ok := strings.Cut(q.Left, ".")
	if !ok {
		return "", q.Left
	}
	return host, cluster
}

// portOf splits "_P._T", or "_T" alone.
func portOf(q zone.Query) (port, protocol string) {
	switch q.Form { //nolint:exhaustive // no other form has one
	case zone.FormPort:
		port, protocol, _ = strings.Cut(q.Left, ".")
		return port[1:], protocol[1:]
	case zone.FormProtocol:
		return "", q.Left[1:]
	}
	return "", ""
}

// typeOf is the type of the import; empty when there is none.
func typeOf(p *Plugin, q zone.Query) string {
	data := p.source.Zone()
	if data == nil || q.Service == "" {
		return ""
	}
	headless, exists := data.Kind(q.Service)
	switch {
	case !exists:
		return ""
	case headless:
		return string(api.Headless)
	}
	return string(api.ClusterSetIP)
}
