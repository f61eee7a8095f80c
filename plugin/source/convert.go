package source

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

// convertImport cuts a ServiceImport down to what DNS needs. ok is false when
// nothing of it can be served. The problems say what was left out and why.
func convertImport(in *api.ServiceImport) (out zone.Import, problems []string, ok bool) {
	if !zone.IsLabel(in.Name) {
		return out, []string{"its name is not a DNS label, so no DNS name can hold it: rename it"}, false
	}
	out = zone.Import{
		Key:      mcs.ServiceKey{Namespace: in.Namespace, Name: in.Name},
		Headless: in.Spec.Type == api.Headless,
	}
	if out.Headless { // its addresses and ports are those of its endpoints
		return out, nil, true
	}
	for _, ip := range in.Spec.IPs {
		addr, reason := usableAddress(ip)
		if reason != "" {
			problems = append(problems, fmt.Sprintf("spec.ips: %q is not served: %s", ip, reason))
			continue
		}
		out.Addresses = append(out.Addresses, addr)
	}
	for _, p := range in.Spec.Ports {
		if port, ok := convertPort(p.Name, p.Protocol, p.Port); ok {
			out.Ports = append(out.Ports, port)
		}
	}
	return out, problems, true
}

// convertSlice cuts an imported EndpointSlice down to its ready endpoints. ok
// is false when nothing of it can be served.
func convertSlice(in *discoveryv1.EndpointSlice) (out zone.Slice, problems []string, ok bool) {
	service := in.Labels[mcs.LabelServiceName]
	if !zone.IsLabel(service) {
		return out, []string{fmt.Sprintf("label %s is %q: want the name of a service", mcs.LabelServiceName, service)}, false
	}
	cluster, err := mcs.ParseClusterID(in.Labels[mcs.LabelSourceCluster])
	if err != nil {
		return out, []string{fmt.Sprintf("label %s: %v", mcs.LabelSourceCluster, err)}, false
	}
	if in.AddressType != discoveryv1.AddressTypeIPv4 && in.AddressType != discoveryv1.AddressTypeIPv6 {
		return out, []string{fmt.Sprintf("address type %s is not served: want IPv4 or IPv6", in.AddressType)}, false
	}
	out = zone.Slice{
		Name:    in.Name,
		Service: mcs.ServiceKey{Namespace: in.Namespace, Name: service},
		Cluster: cluster,
	}
	for _, p := range in.Ports {
		if port, ok := convertPort(deref(p.Name), deref(p.Protocol), deref(p.Port)); ok {
			out.Ports = append(out.Ports, port)
		}
	}
	out.Endpoints = make([]zone.Endpoint, 0, len(in.Endpoints))
	for i := range in.Endpoints {
		e := &in.Endpoints[i]
		if e.Conditions.Ready != nil && !*e.Conditions.Ready {
			continue
		}
		host := strings.ToLower(deref(e.Hostname))
		if host != "" && !zone.IsLabel(host) {
			problems = append(problems, fmt.Sprintf("endpoint %v: host name %q is not a DNS label; its address names it instead", e.Addresses, host))
			host = ""
		}
		for _, ip := range e.Addresses {
			addr, reason := usableAddress(ip)
			if reason != "" {
				problems = append(problems, fmt.Sprintf("endpoint address %q is not served: %s", ip, reason))
				continue
			}
			out.Endpoints = append(out.Endpoints, zone.Endpoint{Address: addr, Host: host})
		}
	}
	return out, problems, true
}

// usableAddress parses an address that may be served; otherwise the reason is
// not empty.
func usableAddress(s string) (addr netip.Addr, reason string) {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return addr, "not an IP address"
	}
	_, reason = mcs.UsableAddress(addr)
	return addr, reason
}

// convertPort leaves out a port without a number, which in a slice stands for all.
func convertPort(name string, protocol corev1.Protocol, number int32) (zone.Port, bool) {
	const highest = 1<<16 - 1
	if number < 1 || number > highest {
		return zone.Port{}, false
	}
	if protocol == "" {
		protocol = corev1.ProtocolTCP
	}
	return zone.Port{Name: name, Protocol: strings.ToLower(string(protocol)), Number: uint16(number)}, true
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
