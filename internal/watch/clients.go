package watch

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	mcsclient "sigs.k8s.io/mcs-api/pkg/client/clientset/versioned"
)

// Clients are the clients of one cluster.
type Clients struct {
	Kube kubernetes.Interface
	MCS  mcsclient.Interface
	// Dynamic is for kinds without a typed client.
	Dynamic dynamic.Interface
}

// NewClients makes the clients on one connection. Kubernetes' own kinds are
// read as protobuf; custom resources have JSON only. The caller sets QPS, Burst
// and UserAgent: with client-go's default of 5 requests a second a first list
// of many pages takes minutes.
func NewClients(config *rest.Config) (Clients, error) {
	config = rest.CopyConfig(config)
	// Warnings are for people at a terminal; that Endpoints are deprecated is known.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	connection, err := rest.HTTPClientFor(config)
	if err != nil {
		return Clients{}, fmt.Errorf("make client: %w", err)
	}
	mcs, err := mcsclient.NewForConfigAndClient(config, connection)
	if err != nil {
		return Clients{}, fmt.Errorf("make client: %w", err)
	}
	dyn, err := dynamic.NewForConfigAndClient(config, connection)
	if err != nil {
		return Clients{}, fmt.Errorf("make client: %w", err)
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	kube, err := kubernetes.NewForConfigAndClient(config, connection)
	if err != nil {
		return Clients{}, fmt.Errorf("make client: %w", err)
	}
	return Clients{Kube: kube, MCS: mcs, Dynamic: dyn}, nil
}
