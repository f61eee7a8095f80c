package k8smcs

import (
	"net"
	"net/netip"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// boundAddresses are the addresses at which a server with these listen hosts
// is reached: the hosts themselves, and for a host that stands for all
// addresses those of the machine, without loopback and link-local ones.
func boundAddresses(listenHosts []string) (addrs []netip.Addr) {
	for _, host := range listenHosts {
		addr, err := netip.ParseAddr(host)
		switch {
		case host == "":
			addrs = append(addrs, machineAddresses(func(netip.Addr) bool { return true })...)
		case err != nil:
		case addr.IsUnspecified():
			addrs = append(addrs, machineAddresses(func(a netip.Addr) bool { return addr.Is6() || a.Is4() })...)
		default:
			addrs = append(addrs, addr.WithZone("").Unmap())
		}
	}
	return addrs
}

func machineAddresses(want func(netip.Addr) bool) (addrs []netip.Addr) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		if ok, _ := mcs.UsableAddress(prefix.Addr()); ok && want(prefix.Addr()) {
			addrs = append(addrs, prefix.Addr())
		}
	}
	return addrs
}
