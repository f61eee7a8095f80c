package main

import (
	"maps"
	"slices"
	"strconv"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// writer is a user who changed something in the consumer cluster.
type writer struct {
	user      string
	who       string
	wrote     []string // "3 create services"
	forbidden []string // what of it is not for this user
}

// mayWrite says which resources a user has to do with in the consumer. Nobody
// but syncd makes anything of a service there.
var mayWrite = map[string]struct {
	who       string
	resources []string // nil: all
}{
	"system:apiserver": {"the control plane itself", nil},
	"admin": {"you, as the operator", []string{
		"customresourcedefinitions", "namespaces", "secrets",
		"serviceaccounts", "clusterroles", "clusterrolebindings", "roles", "rolebindings",
	}},
	serviceAccount("k8s-mcs", "syncd"): {"syncd", []string{
		"serviceimports", "serviceimports/status", "serviceexports/status", "services", "endpointslices", "events",
	}},
}

// writers reads out of the consumer's audit log who wrote what.
func (w *world) writers() ([]writer, error) {
	events, err := w.consumer.AuditEvents()
	if err != nil {
		return nil, err
	}
	return summarize(events), nil
}

func summarize(events []kubetest.AuditEvent) []writer {
	counts := map[string]map[string]int{} // by user, "verb resource"
	denied := map[string]map[string]bool{}
	for _, e := range events {
		// A review asks a question by a create.
		if !e.Writes() || e.Code >= 400 || e.Group == "authorization.k8s.io" || e.Group == "authentication.k8s.io" {
			continue
		}
		resource := e.Resource
		if e.Subresource != "" {
			resource += "/" + e.Subresource
		}
		if counts[e.User] == nil {
			counts[e.User], denied[e.User] = map[string]int{}, map[string]bool{}
		}
		verb := e.Verb
		if verb == "patch" && e.User == "admin" {
			verb = "apply" // kubetest's way to write
		}
		counts[e.User][verb+" "+resource]++
		allowed, known := mayWrite[e.User]
		if !known || allowed.resources != nil && !slices.Contains(allowed.resources, resource) {
			denied[e.User][verb+" "+resource+" "+e.Namespace+"/"+e.Name] = true
		}
	}
	var list []writer
	for _, user := range slices.Sorted(maps.Keys(counts)) {
		who := mayWrite[user].who
		if who == "" {
			who = "somebody who should not"
		}
		one := writer{user: user, who: who, forbidden: slices.Sorted(maps.Keys(denied[user]))}
		for _, what := range slices.Sorted(maps.Keys(counts[user])) {
			one.wrote = append(one.wrote, strconv.Itoa(counts[user][what])+" "+what)
		}
		list = append(list, one)
	}
	return list
}
