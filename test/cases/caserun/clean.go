package caserun

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// lasting are the namespaces that stay between cases.
var lasting = []string{"default", "kube-system", "kube-public", "kube-node-lease", homeNamespace}

// unfinalize lets an object go whatever holds it.
var unfinalize = []byte(`{"metadata":{"finalizers":null}}`)

// clean removes what a case has left. all says that the case has changed roles
// or CRDs as well.
func (m *member) clean(ctx context.Context, all bool) error {
	if all {
		if err := m.InstallCRDs(ctx); err != nil {
			return err
		}
		if err := m.applyRoles(ctx); err != nil {
			return err
		}
	}
	for _, kind := range []string{"ServiceExport", "ServiceImport", "EndpointSlice", "Service", "ConfigMap", "Lease", "Secret"} {
		if err := m.cleanKind(ctx, kind); err != nil {
			return fmt.Errorf("clean %s of %s: %w", m.Name(), kind, err)
		}
	}
	namespaces, err := m.kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("clean %s: %w", m.Name(), err)
	}
	for i := range namespaces.Items {
		if ns := &namespaces.Items[i]; !slices.Contains(lasting, ns.Name) {
			if err := m.cleanNamespace(ctx, ns); err != nil {
				return fmt.Errorf("clean %s of namespace %s: %w", m.Name(), ns.Name, err)
			}
		}
	}
	return nil
}

func (m *member) cleanKind(ctx context.Context, kind string) error {
	resource := m.objects.Resource(resources[kind])
	list, err := resource.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		o := &list.Items[i]
		if belongsToCluster(o) {
			continue
		}
		objects := resource.Namespace(o.GetNamespace())
		if len(o.GetFinalizers()) > 0 {
			if _, err := objects.Patch(ctx, o.GetName(), types.MergePatchType, unfinalize, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		if err := objects.Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// belongsToCluster reports whether an object was there before the first case.
func belongsToCluster(o *unstructured.Unstructured) bool {
	switch o.GetKind() {
	case "Service", "EndpointSlice":
		return o.GetNamespace() == "default" && o.GetName() == "kubernetes"
	case "ConfigMap":
		return strings.HasPrefix(o.GetNamespace(), "kube-") && o.GetName() != "kube-dns" || o.GetName() == "kube-root-ca.crt"
	case "Lease", "Secret":
		return o.GetNamespace() != homeNamespace
	default:
		return false
	}
}

// cleanNamespace does what the namespace controller would do.
func (m *member) cleanNamespace(ctx context.Context, ns *corev1.Namespace) error {
	namespaces := m.kube.CoreV1().Namespaces()
	if len(ns.Finalizers) > 0 {
		if _, err := namespaces.Patch(ctx, ns.Name, types.MergePatchType, unfinalize, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	if err := namespaces.Delete(ctx, ns.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	current, err := namespaces.Get(ctx, ns.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	current.Spec.Finalizers = nil
	if _, err := namespaces.Finalize(ctx, current, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}
