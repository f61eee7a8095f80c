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

// problem is something in an object that is not served.
type problem struct {
	reason Reason
	text   string
}

func problemf(reason Reason, format string, args ...any) problem {
	return problem{reason, fmt.Sprintf(format, args...)}
}

// convertImport cuts a ServiceImport down to what DNS needs. ok is false when
// nothing of it can be served. The problems say what was left out and why.
func convertImport(in *api.ServiceImport) (out zone.Import, problems []problem, ok bool) {
	if !zone.IsLabel(in.Name) {
		return out, []problem{problemf(BadName, "its name is not a DNS label, so no DNS name can hold it: rename it")}, false
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
			problems = append(problems, problemf(BadAddress, "spec.ips: %q is not served: %s", ip, reason))
			continue
		}
		out.Addresses = append(out.Addresses, addr)
	}
	for _, p := range in.Spec.Ports {
		port, reason := convertPort(p.Name, p.Protocol, p.Port)
		if reason != "" {
			problems = append(problems, problemf(BadPort, "spec.ports: %s", reason))
			continue
		}
		out.Ports = append(out.Ports, port)
	}
	return out, problems, true
}

// convertSlice cuts an imported EndpointSlice down to its ready endpoints. ok
// is false when nothing of it can be served. With podNames an endpoint without
// a host name has that of its pod.
func convertSlice(in *discoveryv1.EndpointSlice, podNames bool) (out zone.Slice, problems []problem, ok bool) {
	service := in.Labels[mcs.LabelServiceName]
	if !zone.IsLabel(service) {
		return out, []problem{problemf(BadService, "label %s is %q: want the name of a service", mcs.LabelServiceName, service)}, false
	}
	cluster, err := mcs.ParseClusterID(in.Labels[mcs.LabelSourceCluster])
	if err != nil {
		return out, []problem{problemf(BadClusterID, "label %s: %v", mcs.LabelSourceCluster, err)}, false
	}
	if in.AddressType != discoveryv1.AddressTypeIPv4 && in.AddressType != discoveryv1.AddressTypeIPv6 {
		return out, []problem{problemf(BadAddressType, "address type %s is not served: want IPv4 or IPv6", in.AddressType)}, false
	}
	out = zone.Slice{
		Name:    in.Name,
		Service: mcs.ServiceKey{Namespace: in.Namespace, Name: service},
		Cluster: cluster,
	}
	for _, p := range in.Ports {
		port, reason := convertPort(deref(p.Name), deref(p.Protocol), deref(p.Port))
		if reason != "" {
			problems = append(problems, problemf(BadPort, "%s", reason))
			continue
		}
		out.Ports = append(out.Ports, port)
	}
	out.Endpoints = make([]zone.Endpoint, 0, len(in.Endpoints))
	for i := range in.Endpoints {
		e := &in.Endpoints[i]
		if e.Conditions.Ready != nil && !*e.Conditions.Ready {
			continue
		}
		host := strings.ToLower(deref(e.Hostname))
		if host != "" && !zone.IsLabel(host) {
			problems = append(problems, problemf(BadHost, "endpoint %v: host name %q is not a DNS label, and does not name it", e.Addresses, host))
			host = ""
		}
		if pod := e.TargetRef; host == "" && podNames && pod != nil && pod.Kind == "Pod" && zone.IsLabel(pod.Name) {
			host = pod.Name
		}
		for _, ip := range e.Addresses {
			addr, reason := usableAddress(ip)
			if reason != "" {
				problems = append(problems, problemf(BadAddress, "endpoint address %q is not served: %s", ip, reason))
				continue
			}
			out.Endpoints = append(out.Endpoints, zone.Endpoint{Address: addr, Host: host})
		}
	}
	joinHosts(out.Endpoints)
	return out, problems, true
}

// joinHosts puts all host names into one text. There are as many as endpoints,
// and each garbage collection would look at every one of them.
func joinHosts(endpoints []zone.Endpoint) {
	var all strings.Builder
	for i := range endpoints {
		all.WriteString(endpoints[i].Host)
	}
	rest := all.String()
	for i := range endpoints {
		host := &endpoints[i].Host
		*host, rest = rest[:len(*host)], rest[len(*host):]
	}
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

// convertPort takes a port that may be served; otherwise the reason is not
// empty. In a slice, a port without a number stands for all, which no SRV
// record can say.
func convertPort(name string, protocol corev1.Protocol, number int32) (port zone.Port, reason string) {
	const highest = 1<<16 - 1
	if number < 1 || number > highest {
		return port, fmt.Sprintf("port %q has the number %d: want 1 to %d", name, number, highest)
	}
	port = zone.Port{Name: name, Number: uint16(number)}
	switch strings.ToUpper(string(protocol)) {
	case "", string(corev1.ProtocolTCP):
		port.Protocol = "tcp"
	case string(corev1.ProtocolUDP):
		port.Protocol = "udp"
	case string(corev1.ProtocolSCTP):
		port.Protocol = "sctp"
	default:
		return port, fmt.Sprintf("port %q has the protocol %q: want TCP, UDP or SCTP", name, protocol)
	}
	return port, ""
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
