package syncd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// The ClusterProperty that has a cluster's id (KEP-2149), in the versions of its
// API, the newest first.
const (
	aboutGroup    = "about.k8s.io"
	aboutResource = "clusterproperties"
	idProperty    = "cluster.clusterset.k8s.io"
)

var aboutVersions = []string{"v1", "v1beta1", "v1alpha1"}

// idRetry is the time between two tries to read the id.
const idRetry = 2 * time.Second

// ownID reads this cluster's id until it is there or ctx ends. It says once what
// is missing, and again when that changes.
func ownID(ctx context.Context, client dynamic.Interface, log *slog.Logger) (mcs.ClusterID, bool) {
	told := ""
	for {
		id, err := readOwnID(ctx, client)
		if err == nil {
			log.Info("cluster id is that of the ClusterProperty", "cluster", id)
			return id, true
		}
		if ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			log.Error("cannot tell this cluster's id", "err", err, "remedy", "give --cluster-id, or create the ClusterProperty "+idProperty+" with the id as its value and apply deploy/rbac/syncd.yaml")
		}
		select {
		case <-ctx.Done():
			return "", false
		case <-time.After(idRetry):
		}
	}
}

func readOwnID(ctx context.Context, client dynamic.Interface) (mcs.ClusterID, error) {
	var (
		property *unstructured.Unstructured
		err      error
	)
	for _, version := range aboutVersions {
		resource := schema.GroupVersionResource{Group: aboutGroup, Version: version, Resource: aboutResource}
		property, err = client.Resource(resource).Get(ctx, idProperty, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("get ClusterProperty %s: %w", idProperty, err)
	}
	value, found, err := unstructured.NestedString(property.Object, "spec", "value")
	if err != nil || !found {
		return "", errors.Join(fmt.Errorf("read ClusterProperty %s: spec.value is no text", idProperty), err)
	}
	id, err := mcs.ParseClusterID(value)
	if err != nil {
		return "", fmt.Errorf("read ClusterProperty %s: %w", idProperty, err)
	}
	return id, nil
}
