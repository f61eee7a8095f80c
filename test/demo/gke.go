package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// exportAsGKE exports whereami by GKE's kind in place of the standard one, as
// somebody does who has GKE's manifests. For the importing cluster nothing
// happens: both kinds for one name are one export.
func (s *story) exportAsGKE(ctx context.Context) error {
	s.screen.line("  The manifest of GKE's walkthrough, in both exporters, and the standard one deleted:\n%s", indent(trimmed(gkeExport("whereami"))))
	begin := time.Now()
	for _, name := range exporters {
		if err := apply(ctx, s.clusters[name], gkeExport("whereami")); err != nil {
			return err
		}
		if err := s.valid(ctx, name); err != nil {
			return err
		}
	}
	s.screen.took("both have the condition Valid", time.Since(begin), "")
	for _, name := range exporters {
		if err := remove(ctx, s.clusters[name], serviceExports, "test", "whereami"); err != nil {
			return err
		}
	}
	if err := s.reach(ctx, "the standard ones are deleted; all is as before", "whereami", s.whereamiIs(exporters, endpointsOf(backends, exporters...)...)); err != nil {
		return err
	}
	if err := s.views(ctx, viewImports, viewServices, viewEndpoints); err != nil {
		return err
	}
	if err := s.gkeAnnotations(ctx); err != nil {
		return err
	}
	return s.dig(ctx, whereamiA, "the same IP as by the standard's kind", "NOERROR", s.ip)
}

// valid waits until a net.gke.io export is told to be valid.
func (s *story) valid(ctx context.Context, cluster string) error {
	client, err := dynamic.NewForConfig(s.clusters[cluster].Config())
	if err != nil {
		return err
	}
	f, err := s.until(ctx, "condition Valid of the net.gke.io ServiceExport in "+cluster, []string{"True"}, func(ctx context.Context) ([]string, error) {
		live, err := client.Resource(gkeExports).Namespace("test").Get(ctx, "whereami", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return conditionOf(live, "Valid")
	})
	if err != nil {
		return err
	}
	return s.check(f)
}

func conditionOf(object *unstructured.Unstructured, kind string) ([]string, error) {
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	if err != nil {
		return nil, err
	}
	var list []string
	for _, c := range conditions {
		fields, ok := c.(map[string]any)
		if !ok {
			return nil, errors.New("a condition is not an object")
		}
		if fields["type"] == kind {
			list = append(list, fmt.Sprint(fields["status"]))
		}
	}
	return list, nil
}

// gkeAnnotations shows how GKE's users find the one object from the other.
func (s *story) gkeAnnotations(ctx context.Context) error {
	service, err := s.client.CoreV1().Services("test").Get(ctx, derivedName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	imp, err := s.dynamic.Resource(serviceImports).Namespace("test").Get(ctx, "whereami", metav1.GetOptions{})
	if err != nil {
		return err
	}
	endpoints, err := s.client.CoreV1().Endpoints("test").Get(ctx, derivedName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var findings []finding
	for _, one := range []struct {
		on, key   string
		want, got string
	}{
		{"annotation of Service " + derivedName, mcs.GKEAnnotationImport, "whereami", service.Annotations[mcs.GKEAnnotationImport]},
		{"annotation of ServiceImport whereami", mcs.GKEAnnotationDerived, derivedName, imp.GetAnnotations()[mcs.GKEAnnotationDerived]},
		{"label of Endpoints " + derivedName, mcs.LabelSkipMirror, "true", endpoints.Labels[mcs.LabelSkipMirror]},
	} {
		s.screen.line("  %s: %s: %s", one.on, one.key, one.got)
		findings = append(findings, finding{one.on + " " + one.key, []string{one.want}, []string{one.got}})
	}
	return s.check(findings...)
}
