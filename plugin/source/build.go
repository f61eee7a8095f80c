package source

import (
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

// Build is the zone that a [Source] would serve of these objects: all
// ServiceImports of a cluster, and all EndpointSlices. now is the time in
// seconds since 1970, for the serial.
func Build(opts zone.Options, imports []*api.ServiceImport, slices []*discoveryv1.EndpointSlice, now int64) *zone.Zone {
	b := zone.NewBuilder(opts)
	for _, in := range imports {
		if out, _, ok := convertImport(in); ok {
			b.SetImport(out)
		}
	}
	for _, in := range slices {
		if _, imported := in.Labels[mcs.LabelServiceName]; !imported {
			continue
		}
		if out, _, ok := convertSlice(in, false); ok {
			b.SetSlice(out)
		}
	}
	z, _ := b.Publish(now)
	return z
}
