package peer

import (
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
	"github.com/k8s-mcs/k8s-mcs/syncd/policy"
)

// Offers are what a cluster offers that holds these objects and no others, as a
// Cluster would read them. Objects of kinds that do not matter are passed over.
func Offers(cluster mcs.ClusterID, objects []any) map[mcs.ServiceKey]model.Export {
	c := NewCluster(Options{
		ID: cluster, Log: slog.New(slog.DiscardHandler),
		Namespaces: policy.Namespaces{Denied: strings.Split(policy.DeniedByDefault, ",")},
		Changed:    func(mcs.ServiceKey) {}, Synced: func() {},
	})
	defer c.slices.queue.ShutDown()
	var endpoints []any
	for _, object := range objects {
		var err error
		switch object.(type) {
		case *api.ServiceExport:
			err = c.exports.Add(object)
		case *corev1.Service:
			err = c.services.Add(object)
		case *discoveryv1.EndpointSlice:
			endpoints = append(endpoints, object)
		}
		if err != nil {
			panic("peer: a table refuses an object: " + err.Error()) // none ever does
		}
	}
	if err := c.slices.Replace(endpoints, ""); err != nil {
		panic("peer: a table refuses a list: " + err.Error()) // none ever does
	}
	offers := map[mcs.ServiceKey]model.Export{}
	for _, key := range c.Keys() {
		if offer, problem, _ := c.Offer(key); problem == nil {
			offers[key] = offer
		}
	}
	return offers
}
