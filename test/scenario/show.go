package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/plugin/source"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

const origin = "clusterset.local."

// showObjects tells what stands here, a few lines per service.
func (w *world) showObjects() string {
	var b strings.Builder
	keys := map[mcs.ServiceKey]bool{}
	for key := range w.imports {
		keys[key] = true
	}
	for key, all := range w.slices {
		if len(all) > 0 {
			keys[key] = true
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(keys), mcs.ServiceKey.Compare) {
		if imp := w.imports[key]; imp != nil {
			showImport(&b, imp)
		}
		for _, c := range w.conflicts[key] {
			fmt.Fprintf(&b, "Conflict %s %s: %s\n", key, c.Reason, c.Message())
		}
		if s := w.services[key]; s != nil {
			fmt.Fprintf(&b, "Service %s/%s %s %s\n", s.Namespace, s.Name, strings.Join(s.Spec.ClusterIPs, ","), servicePorts(s.Spec.Ports))
		}
		all := slices.SortedFunc(maps.Values(w.slices[key]), func(x, y *discoveryv1.EndpointSlice) int {
			return cmp.Or(cmp.Compare(x.Labels[mcs.LabelSourceCluster], y.Labels[mcs.LabelSourceCluster]), cmp.Compare(x.Name, y.Name))
		})
		for _, s := range all {
			showSlice(&b, s)
		}
	}
	return b.String()
}

func showImport(b *strings.Builder, imp *api.ServiceImport) {
	ports := make([]string, 0, len(imp.Spec.Ports))
	for _, p := range imp.Spec.Ports {
		ports = append(ports, fmt.Sprintf("%s:%d/%s", p.Name, p.Port, p.Protocol))
	}
	clusters := make([]string, 0, len(imp.Status.Clusters))
	for _, c := range imp.Status.Clusters {
		clusters = append(clusters, c.Cluster)
	}
	conditions := make([]string, 0, len(imp.Status.Conditions))
	for _, c := range imp.Status.Conditions {
		conditions = append(conditions, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	fmt.Fprintf(b, "ServiceImport %s/%s %s [%s] [%s] from %s %s\n", imp.Namespace, imp.Name, imp.Spec.Type,
		strings.Join(imp.Spec.IPs, " "), strings.Join(ports, " "), strings.Join(clusters, ","), strings.Join(conditions, " "))
}

func servicePorts(all []corev1.ServicePort) string {
	ports := make([]string, 0, len(all))
	for _, p := range all {
		ports = append(ports, fmt.Sprintf("%s:%d/%s", p.Name, p.Port, p.Protocol))
	}
	return "[" + strings.Join(ports, " ") + "]"
}

func showSlice(b *strings.Builder, s *discoveryv1.EndpointSlice) {
	ports := make([]string, 0, len(s.Ports))
	for _, p := range s.Ports {
		ports = append(ports, fmt.Sprintf("%s:%d/%s", *p.Name, *p.Port, *p.Protocol))
	}
	endpoints := make([]string, 0, len(s.Endpoints))
	for _, e := range s.Endpoints {
		text := strings.Join(e.Addresses, ",")
		if !*e.Conditions.Ready {
			text += "(not ready)"
		}
		if e.Hints != nil {
			text += "(hint " + e.Hints.ForZones[0].Name + ")"
		}
		endpoints = append(endpoints, text)
	}
	hidden := ""
	if _, ok := s.Labels[mcs.LabelHeadless]; ok {
		hidden = " hidden from kube-proxy"
	}
	fmt.Fprintf(b, "EndpointSlice %s of %s [%s] [%s]%s\n", s.Labels[mcs.LabelServiceName], s.Labels[mcs.LabelSourceCluster],
		strings.Join(ports, " "), strings.Join(endpoints, " "), hidden)
}

var types = map[string]zone.Type{"A": zone.TypeA, "AAAA": zone.TypeAAAA, "SRV": zone.TypeSRV, "TXT": zone.TypeTXT, "SOA": zone.TypeSOA}

// showAnswers asks each question, TYPE NAME a line.
func (w *world) showAnswers(queries string) (string, error) {
	var all []*discoveryv1.EndpointSlice
	for _, of := range w.slices {
		all = slices.AppendSeq(all, maps.Values(of))
	}
	z := source.Build(zone.Options{Origins: []string{origin}}, slices.Collect(maps.Values(w.imports)), all, 1)
	var b strings.Builder
	for line := range strings.Lines(queries) {
		qtype, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		t, known := types[qtype]
		rel, ours := zone.Cut(name+".", origin)
		if !known || !ours {
			return "", fmt.Errorf("query %q: want TYPE NAME, with a name under %s", strings.TrimSpace(line), origin)
		}
		answer := z.Lookup(zone.Parse(rel), t, 0)
		fmt.Fprintf(&b, "%s %s: %s\n", qtype, name, showAnswer(&answer))
	}
	return b.String(), nil
}

func showAnswer(a *zone.Answer) string {
	var data []string
	switch a.Result {
	case zone.NameError:
		return "NXDOMAIN"
	case zone.NoData:
		return "no data"
	case zone.ApexSOA, zone.ApexNS, zone.VersionTXT:
		return "the zone's own"
	case zone.Records:
		for _, ip := range a.V4 {
			data = append(data, netip.AddrFrom4(ip).String())
		}
		for _, ip := range a.V6 {
			data = append(data, netip.AddrFrom16(ip).String())
		}
		for _, srv := range a.SRV {
			data = append(data, fmt.Sprintf("%d %s", srv.Port, strings.TrimSuffix(a.Target(srv), "."+origin)))
		}
	}
	slices.Sort(data)
	return strings.Join(data, ", ")
}
