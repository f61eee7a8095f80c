// Package peer reads clusters: the own one and its peers, of which some come and
// go while syncd runs.
//
// Each cluster is one Cluster: three watches, whose objects shrink on arrival
// into tables, and the health of reading them. A cluster that was never read
// whole is unknown, which is not empty. The Registry makes a Cluster for each
// peer Secret, and keeps its id in the clusterset for as long as the Secret
// stands, whatever its state.
package peer
