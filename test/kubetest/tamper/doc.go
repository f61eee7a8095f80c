// Package tamper is a misbehaving reverse proxy before a real API server. A
// current API server refuses most bad objects and hardly ever fails in the
// middle of an answer; peers of other versions, of other vendors or in the hands
// of an enemy may do both. The proxy makes such a peer out of a good one: rules,
// added and removed while it runs, alter what lists and watches bring.
//
//	proxy := tamper.ForTest(t)
//	kubeconfig, err := proxy.Kubeconfig(kubeconfigOfThePeer)
//	rule := proxy.Add(tamper.Rule{
//		Match:  tamper.Match{Resource: "endpointslices", Name: "web-1"},
//		Effect: tamper.AddAddress("169.254.20.5"),
//	})
//	...
//	rule.Remove()
//
// The proxy asks the server for JSON, whatever the client prefers, and passes
// watches on event by event. Whatever is no list and no watch goes through as it is.
//
// Client-go lists by a watch that begins with all objects and marks their end (a
// streaming list). For rules that is a [List] up to the mark and a [Watch] after
// it, so that a rule does not depend on how a client lists.
package tamper
