package kubetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/mcs-api/config/crd"
)

// definition has the fields of a CustomResourceDefinition that are used here.
type definition struct {
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Plural string `json:"plural"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
		} `json:"versions"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// newlyEstablished is how long the API server counts a CRD as new. It lets
// creations of its objects wait for that long.
const newlyEstablished = 2 * time.Second

// InstallCRDs installs the CRDs of the MCS API, as the mcs-api module of the
// root go.mod has them. It returns when the API server serves them as it will
// for ever: established, watched without being sent away, and no longer new,
// so that no test measures what a cluster does once in its life.
func (c *Cluster) InstallCRDs(ctx context.Context) error {
	if err := c.installCRDs(ctx); err != nil {
		return fmt.Errorf("install CRDs in %s: %w", c.name, err)
	}
	return nil
}

func (c *Cluster) installCRDs(ctx context.Context) error {
	files := [][]byte{crd.ServiceExportCRD, crd.ServiceImportCRD}
	if err := c.Apply(ctx, files...); err != nil {
		return err
	}
	objects, err := decode(files...)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		return err
	}
	for _, object := range objects {
		var last error
		err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, settle, true, func(ctx context.Context) (bool, error) {
			live, err := client.Resource(definitions).Get(ctx, object.GetName(), metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			var d definition
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &d); err != nil {
				return false, err
			}
			last = settled(ctx, disco.RESTClient(), d)
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("wait for %s: %w", object.GetName(), errors.Join(last, err))
		}
	}
	return nil
}

// settled says what the API server still has to do for a CRD.
func settled(ctx context.Context, client rest.Interface, d definition) error {
	var since time.Time
	for _, condition := range d.Status.Conditions {
		if condition.Type == "Established" && condition.Status == metav1.ConditionTrue {
			since = condition.LastTransitionTime.Time
		}
	}
	if since.IsZero() {
		return errors.New("it is not established")
	}
	for _, version := range d.Spec.Versions {
		if !version.Served {
			continue
		}
		path := fmt.Sprintf("/apis/%s/%s/%s", d.Spec.Group, version.Name, d.Spec.Names.Plural)
		// A watch is answered by 429 until the cache behind it is filled.
		stream, err := client.Get().AbsPath(path).Param("watch", "true").MaxRetries(0).Stream(ctx)
		if err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		_ = stream.Close() // it was answered, that is all
	}
	if age := time.Since(since); age < newlyEstablished {
		return fmt.Errorf("it is %v old", age)
	}
	return nil
}
