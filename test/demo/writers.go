package main

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

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
	"system:apiserver":        {"the control plane itself", nil},
	"kube-controller-manager": {"its controllers", nil}, // service accounts, and what is left of a namespace
	"admin": {"you, as the operator", []string{
		"customresourcedefinitions", "namespaces", "secrets",
		"serviceaccounts", "clusterroles", "clusterrolebindings", "roles", "rolebindings",
	}},
	syncdUser: {"syncd", []string{
		"serviceimports", "serviceimports/status", "serviceexports/status", "services", "endpointslices", "endpoints", "events", "leases",
	}},
}

// showWriters reads out of the audit log of tokyo2 who wrote what.
func (s *story) showWriters(ctx context.Context) error {
	events, err := s.audit(ctx, s.consumer)
	if err != nil {
		return err
	}
	list := summarize(events)
	s.screen.writers(list)
	var findings []finding
	for _, w := range list {
		findings = append(findings, finding{"what " + w.user + " writes in " + tokyo2, nil, w.forbidden})
	}
	return s.check(findings...)
}

// userOf is who made a request; the controllers of Kubernetes are one.
func userOf(e kubetest.AuditEvent) string {
	if e.User == "system:kube-controller-manager" || strings.HasPrefix(e.User, serviceAccount("kube-system", "")) {
		return "kube-controller-manager"
	}
	return e.User
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
		user := userOf(e)
		if counts[user] == nil {
			counts[user], denied[user] = map[string]int{}, map[string]bool{}
		}
		verb := e.Verb
		if verb == "patch" && user == "admin" {
			verb = "apply" // kubetest's way to write
		}
		counts[user][verb+" "+resource]++
		allowed, known := mayWrite[user]
		if !known || allowed.resources != nil && !slices.Contains(allowed.resources, resource) {
			denied[user][verb+" "+resource+" "+e.Namespace+"/"+e.Name] = true
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
