// Package scenario runs stories about a clusterset in memory: objects of users
// per cluster in, objects of syncd and answers of the plugin out. It goes the
// whole path, through reading, merge, plan and zone, with a few lines in place
// of an API server; what a real one does is tested in test/integration.
//
// A story is a txtar file in test/testdata. Its comment says in lines beginning
// with # what it shows; the other lines are steps:
//
//	sync                 the importing cluster does its work
//	silence CLUSTER      the cluster cannot be read, and nothing is known of it
//	hear CLUSTER         it can be read again
//	leave CLUSTER        its Secret is removed
//	apply CLUSTER FILE   objects of a file in the folder "later" come or change
//	delete CLUSTER KIND/NAMESPACE/NAME
//
// Files named CLUSTER/ANYTHING.yaml are what the clusters hold at first.
// "queries" are questions, TYPE NAME a line. "objects" and "answers" are what
// is to stand in the importing cluster, which is called "here", after the last
// step; `go test ./test/scenario -update` writes them anew.
//
// After each sync another one must want no write at all.
package scenario
