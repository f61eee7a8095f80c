package plan

import (
	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// Verb is what happens to an object.
type Verb string

// The verbs; the zero value is to leave the object as it is.
const (
	None   Verb = ""
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
)

// Change is one write. For an update, Object is the whole wanted object with the
// resourceVersion it was planned on; for a deletion it is what exists. Without a
// change it is what exists, or nil.
type Change[T any] struct {
	Verb   Verb
	Object T
	// Why is the reason, for logs.
	Why string
	// Events are to be told about the object once it is written.
	Events []Event
}

// Local are facts of the cluster that is written to.
type Local struct {
	Cluster mcs.ClusterID
	// Prefix begins the names of derived Services.
	Prefix string
	// GKECompat writes what GKE's tools look at.
	GKECompat bool
	// Families are those the cluster gives Services, primary first.
	Families []model.Family
}
