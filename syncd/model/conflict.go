package model

import (
	"fmt"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// Conflict is a property in which exporters of one service differ (KEP-1645,
// Constraints and Conflict Resolution).
type Conflict struct {
	// Reason is the word of the MCS API for it.
	Reason string
	// Property is what differs, as a message says it.
	Property string
	// Winner is the cluster with the oldest ServiceExport, whose value counts,
	// and Value is that value, shortened.
	Winner mcs.ClusterID
	Value  string
	// Disagree is how many of the Of exporters have another value.
	Disagree, Of int
}

// Message tells the conflict to the owner of a ServiceExport. It is the same in
// every cluster.
func (c Conflict) Message() string {
	return fmt.Sprintf("%s: %d of %d clusters differ from %s, whose export is the oldest and which has %s",
		c.Property, c.Disagree, c.Of, c.Winner, c.Value)
}
