package k8smcs

import (
	"errors"
	"strings"

	"github.com/coredns/coredns/plugin/transfer"
	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

var _ transfer.Transferer = &Plugin{} //nolint:misspell // its name

// Transfer is what the plugin transfer asks for: all records of a zone as it is now.
// There is no history, so a client with an older serial gets all of them too.
func (p *Plugin) Transfer(name string, serial uint32) (<-chan []dns.RR, error) {
	z := p.authorityOf(name)
	if z == nil {
		return nil, transfer.ErrNotAuthoritative
	}
	data := p.source.Zone()
	if data == nil {
		return nil, errors.New("transfer zone: there is no data from the API server yet")
	}
	to := make(chan []dns.RR)
	go func() {
		defer close(to)
		soa := []dns.RR{p.soa(z, z.name, data.Serial())}
		to <- soa
		if serial != 0 && int32(serial-data.Serial()) >= 0 { //nolint:gosec // serials are compared as RFC 1982 has it
			return
		}
		to <- p.records(z, z.name, 0, &zone.Answer{Result: zone.ApexNS})
		if z.origin == noOrigin {
			p.transferReverse(data, z, to)
		} else {
			for owner, answer := range data.Walk(z.origin) {
				to <- p.records(z, owner, 0, &answer)
			}
		}
		to <- soa
	}()
	return to, nil
}

// authorityOf is the zone of that very name.
func (p *Plugin) authorityOf(name string) *authority {
	for i := range p.zones {
		if strings.EqualFold(p.zones[i].name, name) {
			return &p.zones[i]
		}
	}
	return nil
}

func (p *Plugin) transferReverse(data *zone.Zone, z *authority, to chan<- []dns.RR) {
	prefix, ok := zone.ParseReverse(z.name)
	if !ok {
		return
	}
	for addr := range data.WalkReverse(prefix) {
		// A more specific zone of ours holds its names itself.
		owner := zone.ReverseName(addr)
		if nearest, _ := p.nearest(owner); nearest != z {
			continue
		}
		answer := data.ReverseOf(addr)
		to <- p.records(z, owner, 0, &answer)
	}
}
