package caserun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

type runVerb func(ctx context.Context, w *world, e Event) error

// verbs are what an event can do, and which keys it may have for that.
var verbs map[string]verb

func init() { //nolint:gochecknoinits // the table and the reader that looks into it refer to each other
	verbs = map[string]verb{
		"apply":           {fields: []string{"cluster", "objects", "replace"}, run: doApply},
		"delete":          {fields: []string{"cluster", "refs", "namespace", "wait_gone", "hold_with_finalizer"}, run: doDelete},
		"delete_selected": {fields: []string{"cluster", "kind", "select", "namespace", "wait_gone", "hold_with_finalizer"}, run: doDeleteSelected},
		"patch":           {fields: []string{"cluster", "ref", "namespace", "patch"}, run: doPatch},
		"patch_sequence":  {fields: []string{"cluster", "ref", "namespace", "patches", "interval_ms"}, run: doPatchSequence},
		"api":             {fields: []string{"cluster", "set", "expire_watches", "unblock"}, sets: []string{"unreachable", "reachable", "watches_cut"}, run: doAPI},
		"network":         {fields: []string{"cluster", "peer", "set"}, sets: []string{"cut", "restored"}, run: doNetwork},
		"rbac":            {fields: []string{"process", "cluster", "grant", "revoke"}, run: doRBAC},
		"crds":            {fields: []string{"cluster", "set"}, sets: []string{"installed", "absent"}, run: doCRDs},
		"start":           {fields: []string{"process", "cluster", "clusters"}, run: doStart},
		"stop":            {fields: []string{"process", "cluster", "clusters"}, run: doStop},
		"restart":         {fields: []string{"process", "cluster", "clusters", "times"}, run: doRestart},
		"reload":          {fields: []string{"process", "cluster", "times", "change"}, run: doReload},
		"credentials":     {fields: []string{"cluster", "peer", "set"}, sets: []string{"new_token_written", "old_token_revoked"}, run: doCredentials},
		"patch_generated": {fields: []string{"cluster", "index"}, run: doPatchGenerated},
		"wait":            {fields: []string{"seconds"}, run: doWait},
		"settle":          {fields: []string{"within"}, run: doSettle},
		"query_every":     {fields: []string{"seconds", "name", "type"}, run: doQueryEvery},
	}
}

func doApply(ctx context.Context, w *world, e Event) error {
	for _, object := range e.Objects {
		if err := w.apply(ctx, e.Cluster, object, e.Replace); err != nil {
			return err
		}
	}
	return nil
}

func doDelete(ctx context.Context, w *world, e Event) error {
	m, err := w.member(e.Cluster)
	if err != nil {
		return err
	}
	for _, ref := range e.Refs {
		kind, name := splitRef(ref)
		if err := m.remove(ctx, kind, defaultNamespace(e.Namespace), name, e); err != nil {
			return fmt.Errorf("delete %s in %s: %w", ref, e.Cluster, err)
		}
	}
	return nil
}

// finalizer is what holds an object that is to stay in its deletion.
const finalizer = "cases.k8s-mcs.io/hold"

func (m *member) remove(ctx context.Context, kind, namespace, name string, e Event) error {
	client, err := m.of(kind, namespace)
	if err != nil {
		return err
	}
	if e.HoldWithFinalizer {
		hold := []byte(`{"metadata":{"finalizers":["` + finalizer + `"]}}`)
		if _, err := client.Patch(ctx, name, types.MergePatchType, hold, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if !e.WaitGone {
		return nil
	}
	deadline := time.Now().Add(startTimeout)
	for {
		_, err := client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(errors.New("it is still there"), err)
		}
		if err := sleep(ctx, pollPause); err != nil {
			return err
		}
	}
}

// derivedLabels is the label behind {{DERIVED_LABEL}}.
func derivedLabels(selector map[string]string) map[string]string {
	result := map[string]string{}
	for key, value := range selector {
		if key == "{{DERIVED_LABEL}}" {
			key = mcs.LabelOriginService
		}
		result[key] = value
	}
	return result
}

func doDeleteSelected(ctx context.Context, w *world, e Event) error {
	m, err := w.member(e.Cluster)
	if err != nil {
		return err
	}
	namespace := defaultNamespace(e.Namespace)
	client, err := m.of(e.Kind, namespace)
	if err != nil {
		return err
	}
	selector := labels.SelectorFromSet(derivedLabels(e.Select)).String()
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("list %s in %s: %w", e.Kind, e.Cluster, err)
	}
	if len(list.Items) == 0 {
		return fmt.Errorf("delete %s in %s: none has the labels %s", e.Kind, e.Cluster, selector)
	}
	for i := range list.Items {
		if err := m.remove(ctx, e.Kind, namespace, list.Items[i].GetName(), e); err != nil {
			return fmt.Errorf("delete %s/%s in %s: %w", e.Kind, list.Items[i].GetName(), e.Cluster, err)
		}
	}
	return nil
}

func doPatch(ctx context.Context, w *world, e Event) error {
	return w.patch(ctx, e, e.Patch)
}

func doPatchSequence(ctx context.Context, w *world, e Event) error {
	for _, patch := range e.Patches {
		if err := w.patch(ctx, e, patch); err != nil {
			return err
		}
		if err := sleep(ctx, time.Duration(e.IntervalMS)*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// patch changes an object. What the API server refuses is shown by the proxy,
// with a change of the stored object that makes watches speak.
func (w *world) patch(ctx context.Context, e Event, patch Object) error {
	m, err := w.member(e.Cluster)
	if err != nil {
		return err
	}
	kind, name := splitRef(e.Ref)
	namespace := defaultNamespace(e.Namespace)
	client, err := m.of(kind, namespace)
	if err != nil {
		return err
	}
	content, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("patch %s in %s: %w", e.Ref, e.Cluster, err)
	}
	_, err = client.Patch(ctx, name, types.MergePatchType, content, metav1.PatchOptions{FieldManager: fieldManager})
	old := w.refused[e.Cluster][(&refusal{kind: kind, namespace: namespace, name: name}).key()]
	if old == nil || err != nil && !apierrors.IsInvalid(err) {
		if err != nil {
			return fmt.Errorf("patch %s in %s: %w", e.Ref, e.Cluster, err)
		}
		return nil
	}
	body, ok := mergePatch(old.body, map[string]any(patch)).(map[string]any)
	if !ok {
		return fmt.Errorf("patch %s in %s: the patch is no object", e.Ref, e.Cluster)
	}
	r := &refusal{kind: kind, namespace: namespace, name: name, body: bodyOf(body), touched: old.touched + 1}
	if err := w.refuse(e.Cluster, r); err != nil {
		return err
	}
	touch := []byte(`{"metadata":{"annotations":{"cases.k8s-mcs.io/touched":"` + strconv.Itoa(r.touched) + `"}}}`)
	if _, err := client.Patch(ctx, name, types.MergePatchType, touch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("touch %s in %s: %w", e.Ref, e.Cluster, err)
	}
	return nil
}

func doWait(ctx context.Context, _ *world, e Event) error {
	return sleep(ctx, time.Duration(e.Seconds*float64(time.Second)))
}

func doSettle(ctx context.Context, w *world, e Event) error {
	within := defaultSettle
	if e.Within > 0 {
		within = time.Duration(e.Within * float64(time.Second))
	}
	return w.settle(ctx, within)
}

const (
	// quiet is how long nothing may change for things to have settled.
	quiet         = 2 * time.Second
	defaultSettle = 2 * time.Minute
)

// settle waits until no object has changed for a while.
func (w *world) settle(ctx context.Context, within time.Duration) error {
	deadline := time.Now().Add(within)
	var last string
	since := time.Now()
	for {
		now, err := w.versions(ctx)
		if err != nil {
			return err
		}
		switch {
		case now != last:
			last, since = now, time.Now()
		case time.Since(since) >= quiet:
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("things have not settled after %v", within)
		}
		if err := sleep(ctx, 5*pollPause); err != nil {
			return err
		}
	}
}

// versions is a text that changes with each write of what syncd deals with.
func (w *world) versions(ctx context.Context) (string, error) {
	var text strings.Builder
	for _, id := range w.c.clusterIDs() {
		for _, kind := range []string{"ServiceExport", "ServiceImport", "Service", "EndpointSlice"} {
			list, err := w.members[id].objects.Resource(resources[kind]).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // its CRD is away
			}
			if err != nil {
				return "", fmt.Errorf("list %s in %s: %w", kind, id, err)
			}
			for i := range list.Items {
				text.WriteString(string(list.Items[i].GetUID()) + "=" + list.Items[i].GetResourceVersion() + " ")
			}
		}
	}
	return text.String(), nil
}

// doQueryEvery asks in the background until the case ends, and looks at no answer.
func doQueryEvery(ctx context.Context, w *world, e Event) error {
	if w.dns == nil || e.Seconds <= 0 {
		return errors.New("query_every: want a DNS server and seconds")
	}
	q := Query{Name: e.Name, Type: "A"}
	if e.Type != "" {
		q.Type = e.Type
	}
	ctx, cancel := context.WithCancel(ctx)
	w.stopAsk = cancel
	w.asking.Go(func() {
		for {
			_, _ = ask(ctx, q, w.dns.addr) // only to be asked
			if sleep(ctx, time.Duration(e.Seconds*float64(time.Second))) != nil {
				return
			}
		}
	})
	return nil
}

// targets are the clusters of an event about a process.
func (e Event) targets(w *world) []string {
	switch {
	case len(e.Clusters) > 0:
		return e.Clusters
	case e.Cluster != "":
		return []string{e.Cluster}
	default:
		return w.c.clusterIDs()
	}
}

func has(list []string, word string) bool { return slices.Contains(list, word) }
