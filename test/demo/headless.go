package main

import (
	"context"
	"slices"

	"github.com/miekg/dns"
)

const headlessName = "whereami-headless.test.svc.clusterset.local."

// ordinals are the Pods of a StatefulSet in each exporter, with the addresses of
// the public walkthrough.
var ordinals = map[string][]pod{
	tokyo1: {
		{name: "whereami-0", node: "tyo-node-1", ip: "10.5.1.14", service: "whereami-headless", ready: true, ordinal: true},
		{name: "whereami-1", node: "tyo-node-0", ip: "10.5.0.11", service: "whereami-headless", ready: true, ordinal: true},
	},
	osaka1: {
		{name: "whereami-0", node: "osa-node-0", ip: "10.6.0.16", service: "whereami-headless", ready: true, ordinal: true},
		{name: "whereami-1", node: "osa-node-1", ip: "10.6.1.10", service: "whereami-headless", ready: true, ordinal: true},
	},
}

// exportHeadless exports a headless Service: its name is all Pods, and each Pod
// has a name of its own.
func (s *story) exportHeadless(ctx context.Context) error {
	for _, name := range exporters {
		if err := apply(ctx, s.clusters[name], podsOf(ordinals[name]), headless("whereami-headless", 8080, "http"), export("whereami-headless")); err != nil {
			return err
		}
	}
	want := state{kind: "Headless", clusters: exporters, endpoints: endpointsOf(ordinals, exporters...)}
	err := s.reach(ctx, "Service whereami-headless is exported from both", "whereami-headless", want)
	if err != nil {
		return err
	}
	if err := s.views(ctx, viewImports); err != nil {
		return err
	}
	if err := s.dig(ctx, question{"udp", dns.TypeA, headlessName}, "every ready Pod of both clusters, in any order", "NOERROR", addressesOf(ordinals, exporters...)...); err != nil {
		return err
	}
	port := question{"udp", dns.TypeSRV, "_http._tcp." + headlessName}
	var targets, glue []string
	for _, name := range exporters {
		for _, p := range ordinals[name] {
			own := p.name + "." + name + "." + headlessName
			if err := s.dig(ctx, question{"udp", dns.TypeA, own}, p.name+" of "+name, "NOERROR", p.ip); err != nil {
				return err
			}
			targets, glue = append(targets, "0 100 8080 "+own), append(glue, "additional "+own+" A "+p.ip)
		}
	}
	lines := slices.Concat([]string{"status NOERROR"}, port.records(targets...), sorted(glue))
	return s.digAt(ctx, s.dns, port, "the port named http of each, and their addresses", lines)
}

// comeBack are Pods of a Deployment behind a headless whereami: without host
// names, so that they have names made of their addresses.
var comeBack = map[string][]pod{
	tokyo1: {
		{name: "whereami-86769-k8ds2", node: "tyo-node-0", ip: "10.5.0.10", service: "whereami", ready: true},
		{name: "whereami-86769-tz4nb", node: "tyo-node-1", ip: "10.5.1.13", service: "whereami", ready: true},
	},
	osaka1: {
		{name: "whereami-86769-6vqfj", node: "osa-node-0", ip: "10.6.0.10", service: "whereami", ready: true},
		{name: "whereami-86769-p9xwl", node: "osa-node-1", ip: "10.6.1.7", service: "whereami", ready: true},
	},
}

// comeBackHeadless deletes everything of whereami in both exporters, and exports
// a headless Service of that name.
func (s *story) comeBackHeadless(ctx context.Context) error {
	for _, name := range exporters {
		c := s.clusters[name]
		if err := remove(ctx, c, gkeExports, "test", "whereami"); err != nil {
			return err
		}
		if err := remove(ctx, c, services, "test", "whereami"); err != nil {
			return err
		}
		if err := removePods(ctx, c, backends[name]); err != nil {
			return err
		}
	}
	if err := s.reach(ctx, "exports, Services and Pods are deleted in both", "whereami", state{}); err != nil {
		return err
	}
	if err := s.dig(ctx, whereamiA, "nobody exports it", "NXDOMAIN"); err != nil {
		return err
	}
	for _, name := range exporters {
		if err := apply(ctx, s.clusters[name], podsOf(comeBack[name]), headless("whereami", 8080, ""), gkeExport("whereami")); err != nil {
			return err
		}
	}
	want := state{kind: "Headless", clusters: exporters, endpoints: endpointsOf(comeBack, exporters...)}
	if err := s.reach(ctx, "a headless Service of that name is exported", "whereami", want); err != nil {
		return err
	}
	if err := s.views(ctx, viewImports, viewOnly(viewEndpoints, derivedName)); err != nil {
		return err
	}
	if err := s.dig(ctx, whereamiA, "all Pods; no clusterset IP, no derived Service", "NOERROR", addressesOf(comeBack, exporters...)...); err != nil {
		return err
	}
	own := question{"udp", dns.TypeA, "10-5-0-10." + tokyo1 + "." + whereamiName}
	if err := s.dig(ctx, own, "a Pod without a host name goes by its address", "NOERROR", "10.5.0.10"); err != nil {
		return err
	}
	none := question{"udp", dns.TypeA, "whereami-0." + tokyo1 + "." + whereamiName}
	return s.dig(ctx, none, "only Pods of a StatefulSet have names like this", "NXDOMAIN")
}
