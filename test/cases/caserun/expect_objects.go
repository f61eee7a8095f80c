package caserun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// get reads one object.
func (w *world) get(ctx context.Context, cluster, kind, namespace, name string) (*unstructured.Unstructured, error) {
	m, err := w.member(cluster)
	if err != nil {
		return nil, err
	}
	client, err := m.of(kind, namespace)
	if err != nil {
		return nil, err
	}
	return client.Get(ctx, name, metav1.GetOptions{})
}

// find reads the objects that a check is about.
func (w *world) find(ctx context.Context, o ObjectCheck) ([]unstructured.Unstructured, error) {
	if o.Name != "" {
		object, err := w.get(ctx, o.Cluster, o.Kind, o.Namespace, o.Name)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []unstructured.Unstructured{*object}, nil
	}
	m, err := w.member(o.Cluster)
	if err != nil {
		return nil, err
	}
	client, err := m.of(o.Kind, o.Namespace)
	if err != nil {
		return nil, err
	}
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(derivedLabels(o.Select)).String()})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (o ObjectCheck) eval(ctx context.Context, w *world) error {
	what := fmt.Sprintf("%s %s/%s in %s", o.Kind, o.Namespace, o.Name, o.Cluster)
	if o.Name == "" {
		what = fmt.Sprintf("%s %s with %v in %s", o.Kind, o.Namespace, o.Select, o.Cluster)
	}
	found, err := w.find(ctx, o)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if o.Absent {
		if len(found) > 0 {
			return fmt.Errorf("%s: there are %d, want none", what, len(found))
		}
		return nil
	}
	if o.Count != nil && len(found) != *o.Count {
		return fmt.Errorf("%s: count is %d, want %d", what, len(found), *o.Count)
	}
	if o.Count == nil && len(found) == 0 && (o.Addresses == nil || len(*o.Addresses) > 0) {
		return fmt.Errorf("%s: there is none", what)
	}
	if o.Addresses != nil {
		if err := checkSet(what+": set of ready addresses", readyAddresses(found), *o.Addresses); err != nil {
			return err
		}
	}
	for i := range found {
		if err := o.one(&found[i]); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

// one looks at one of the objects.
func (o ObjectCheck) one(object *unstructured.Unstructured) error {
	for key, value := range o.ForbidLabels {
		if have, ok := object.GetLabels()[key]; ok && have == value {
			return fmt.Errorf("%s has the label %s=%s", object.GetName(), key, value)
		}
	}
	if by := object.GetLabels()["endpointslice.kubernetes.io/managed-by"]; o.ManagedBy != "" && by != o.ManagedBy {
		return fmt.Errorf("%s is managed by %q, want %q", object.GetName(), by, o.ManagedBy)
	}
	if o.Match == nil {
		return nil
	}
	return matchPart("", object.Object, map[string]any(o.Match))
}

func readyAddresses(slices []unstructured.Unstructured) []string {
	var all []string
	for i := range slices {
		endpoints, _, _ := unstructured.NestedSlice(slices[i].Object, "endpoints")
		for _, e := range endpoints {
			endpoint, ok := e.(map[string]any)
			if !ok {
				continue
			}
			if ready, set, _ := unstructured.NestedBool(endpoint, "conditions", "ready"); set && !ready {
				continue
			}
			addresses, _, _ := unstructured.NestedStringSlice(endpoint, "addresses")
			all = append(all, addresses...)
		}
	}
	return all
}

// matchPart reports where an object lacks what a partial match asks for.
func matchPart(path string, have, want any) error {
	switch want := want.(type) {
	case map[string]any:
		object, ok := have.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %v, want %v", path, have, want)
		}
		for key, value := range want {
			if err := matchKey(path, object, key, value); err != nil {
				return err
			}
		}
		return nil
	case []any:
		list, ok := have.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Errorf("%s is %v, want %v", path, have, want)
		}
		if path == ".status.clusters" {
			return matchSet(path, list, want)
		}
		for i := range want {
			if err := matchPart(fmt.Sprintf("%s[%d]", path, i), list[i], want[i]); err != nil {
				return err
			}
		}
		return nil
	default:
		if !sameValue(have, want) {
			return fmt.Errorf("%s is %v, want %v", path, have, want)
		}
		return nil
	}
}

func matchKey(path string, object map[string]any, key string, want any) error {
	switch key {
	case "ports_exactly":
		have, _ := object["ports"].([]any)
		list, ok := want.([]any)
		if !ok {
			return fmt.Errorf("%s.ports_exactly: want a list", path)
		}
		return exactly(path+".ports", have, list)
	case "ips_count":
		have, _ := object["ips"].([]any)
		bounds, ok := want.([]any)
		if !ok || len(bounds) != 2 {
			return fmt.Errorf("%s.ips_count: want [min, max]", path)
		}
		low, okLow := bounds[0].(int64)
		high, okHigh := bounds[1].(int64)
		if n := int64(len(have)); !okLow || !okHigh || n < low || n > high {
			return fmt.Errorf("%s has %d ips, want %v", path, n, bounds)
		}
		return nil
	case "labels_absent":
		keys, ok := want.([]any)
		if !ok {
			return fmt.Errorf("%s.labels_absent: want a list", path)
		}
		have, _ := object["labels"].(map[string]any)
		for _, k := range keys {
			if name, isText := k.(string); isText {
				if _, there := have[name]; there {
					return fmt.Errorf("%s has the label %s", path, name)
				}
			}
		}
		return nil
	}
	have, there := object[key]
	if !there && want != nil {
		return fmt.Errorf("%s.%s is not there, want %v", path, key, want)
	}
	return matchPart(path+"."+key, have, want)
}

// matchSet matches each wanted part with another item.
func matchSet(path string, have, want []any) error {
	left := slices.Clone(have)
	for _, item := range want {
		at := slices.IndexFunc(left, func(h any) bool { return matchPart(path, h, item) == nil })
		if at < 0 {
			return fmt.Errorf("%s is %v, want %v", path, have, want)
		}
		left = slices.Delete(left, at, at+1)
	}
	return nil
}

// exactly compares two sets of objects without parts that are left out.
func exactly(path string, have, want []any) error {
	texts := func(list []any) []string {
		var all []string
		for _, item := range list {
			if content, err := json.Marshal(item); err == nil {
				all = append(all, string(content))
			}
		}
		slices.Sort(all)
		return all
	}
	if h, w := texts(have), texts(want); !slices.Equal(h, w) {
		return fmt.Errorf("%s is exactly %q, want %q", path, h, w)
	}
	return nil
}

func sameValue(have, want any) bool {
	number := func(v any) any {
		switch n := v.(type) {
		case int64:
			return float64(n)
		case int:
			return float64(n)
		}
		return v
	}
	return reflect.DeepEqual(number(have), number(want))
}

func (o ConditionCheck) eval(ctx context.Context, w *world) error {
	what := fmt.Sprintf("condition %s of %s %s/%s in %s", o.Type, o.Kind, o.Namespace, o.Name, o.Cluster)
	object, err := w.get(ctx, o.Cluster, o.Kind, o.Namespace, o.Name)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if !ok || condition["type"] != o.Type {
			continue
		}
		status, _ := condition["status"].(string)
		reason, _ := condition["reason"].(string)
		switch {
		case status != o.Status:
			return fmt.Errorf("%s is %s (%s: %v), want %s", what, status, reason, condition["message"], o.Status)
		case o.Reason != "" && reason != o.Reason:
			return fmt.Errorf("%s has reason %s, want %s", what, reason, o.Reason)
		case !strings.Contains(reason, o.ReasonContains):
			return fmt.Errorf("%s has reason %s, want %s in it", what, reason, o.ReasonContains)
		}
		if o.ReasonMatches != "" {
			if ok, err := regexp.MatchString(o.ReasonMatches, reason); err != nil || !ok {
				return errors.Join(fmt.Errorf("%s has reason %s, want a match of %s", what, reason, o.ReasonMatches), err)
			}
		}
		return nil
	}
	return fmt.Errorf("%s is not there", what)
}

func (o LocalCheck) eval(ctx context.Context, w *world) error {
	namespace, name, _ := strings.Cut(o.Service, "/")
	found, err := w.find(ctx, ObjectCheck{
		Cluster: o.Cluster, Kind: "EndpointSlice", Namespace: namespace,
		Select: map[string]string{"kubernetes.io/service-name": name},
	})
	if err != nil {
		return err
	}
	if o.Addresses == nil {
		return errors.New("local_endpoints has no addresses")
	}
	return checkSet("addresses of the local Service "+o.Service+" in "+o.Cluster, readyAddresses(found), *o.Addresses)
}

// routedIPs is the one rule between an import and other objects.
const routedIPs = "spec.ips equals the clusterIPs of the object that routes them"

func (o ConsistentCheck) eval(ctx context.Context, w *world) error {
	namespace, name, _ := strings.Cut(o.Import, "/")
	imported, err := w.get(ctx, o.Cluster, "ServiceImport", namespace, name)
	if err != nil {
		return err
	}
	routers, err := w.find(ctx, ObjectCheck{
		Cluster: o.Cluster, Kind: "Service", Namespace: namespace,
		Select: map[string]string{"{{DERIVED_LABEL}}": name},
	})
	if err != nil {
		return err
	}
	ips, _, _ := unstructured.NestedStringSlice(imported.Object, "spec", "ips")
	if len(ips) == 0 || len(routers) != 1 {
		return fmt.Errorf("import %s has the IPs %q and %d derived Services, want one that routes them", o.Import, ips, len(routers))
	}
	routed, _, _ := unstructured.NestedStringSlice(routers[0].Object, "spec", "clusterIPs")
	if equal := slices.Equal(ips, routed); equal == o.inverted {
		return fmt.Errorf("import %s has the IPs %q, its derived Service routes %q", o.Import, ips, routed)
	}
	return nil
}
