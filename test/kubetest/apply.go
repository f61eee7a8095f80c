package kubetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

const (
	// fieldManager owns the fields that Apply sets.
	fieldManager = "kubetest"
	// settle bounds the wait for what controllers and discovery owe an object
	// before it is admitted: a CRD's endpoint, a namespace's service account.
	settle = 30 * time.Second
)

// Apply applies every object of the YAML documents by server-side apply, as
// admin, in their order. An object that has a status gets it, too, by the
// status subresource. The namespace is "default" where none is given.
func (c *Cluster) Apply(ctx context.Context, documents ...[]byte) error {
	objects, err := decode(documents...)
	if err != nil {
		return fmt.Errorf("apply to %s: %w", c.name, err)
	}
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("apply to %s: %w", c.name, err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("apply to %s: %w", c.name, err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	for _, object := range objects {
		var last error
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, settle, true, func(ctx context.Context) (bool, error) {
			last = applyOne(ctx, client, mapper, object)
			switch {
			case last == nil:
				return true, nil
			case meta.IsNoMatchError(last):
				mapper.Reset()
				return false, nil
			case ctx.Err() == nil && early(last):
				return false, nil
			default:
				return false, last
			}
		})
		if err != nil {
			if last != nil {
				err = last // why, rather than that time ran out
			}
			return fmt.Errorf("apply %s %s/%s to %s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), c.name, err)
		}
	}
	return nil
}

// early reports whether an object came before what the cluster makes for it: a
// Pod before the service account of its namespace.
func early(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "error looking up service account")
}

func applyOne(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		resource = client.Resource(mapping.Resource).Namespace(namespace)
	}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if _, err := resource.Apply(ctx, object.GetName(), object, options); err != nil {
		return err
	}
	if _, has := object.Object["status"]; !has || kind.Kind == "CustomResourceDefinition" {
		return nil
	}
	_, err = resource.ApplyStatus(ctx, object.GetName(), object, options)
	return err
}

// decode reads documents of YAML or JSON; empty ones are left out.
func decode(documents ...[]byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, content := range documents {
		reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read YAML: %w", err)
			}
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(document, &object.Object); err != nil {
				return nil, fmt.Errorf("read YAML document %d: %w", len(objects)+1, err)
			}
			if len(object.Object) == 0 {
				continue
			}
			if object.GetKind() == "" || object.GetName() == "" {
				return nil, fmt.Errorf("read YAML document %d: it has no kind or no metadata.name", len(objects)+1)
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}
