package caserun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// shipped finds a manifest below deploy.
func (w *world) shipped(kind, namespace, name string) (map[string]any, error) {
	var found map[string]any
	err := filepath.WalkDir(filepath.Join(w.bed.Root(), "deploy"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // a file of the repository
		if err != nil {
			return err
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
		for {
			var object map[string]any
			if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return fmt.Errorf("read %s: %w", path, err)
			}
			metadata, _ := object["metadata"].(map[string]any)
			if object["kind"] == kind && metadata["name"] == name && (namespace == "" || metadata["namespace"] == namespace) {
				found = object
				return nil
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("look for manifests: %w", err)
	}
	if found == nil {
		return nil, fmt.Errorf("deploy ships no %s %s/%s", kind, namespace, name)
	}
	return found, nil
}

func (o ManifestCheck) eval(_ context.Context, w *world) error {
	object, err := w.shipped(o.Kind, o.Namespace, o.Name)
	if err != nil {
		return err
	}
	spec, _ := object["spec"].(map[string]any)
	ports, _ := spec["ports"].([]any)
	for _, want := range o.PortsContain {
		found := false
		for _, port := range ports {
			found = found || matchPart("port", port, map[string]any(want)) == nil
		}
		if !found {
			return fmt.Errorf("ports of %s %s are %v, want %v in them", o.Kind, o.Name, ports, want)
		}
	}
	if o.DataKey == "" {
		return nil
	}
	data, _ := object["data"].(map[string]any)
	text, ok := data[o.DataKey].(string)
	if !ok {
		return fmt.Errorf("%s %s has no text under the key %s", o.Kind, o.Name, o.DataKey)
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return fmt.Errorf("%s of %s %s is no JSON: %w", o.DataKey, o.Kind, o.Name, err)
	}
	if o.JSONSchema != nil {
		if err := fits(o.DataKey, value, o.JSONSchema); err != nil {
			return err
		}
	}
	if keys, _ := value.(map[string]any); o.HasKey != "" {
		if _, ok := keys[o.HasKey]; !ok {
			return fmt.Errorf("%s of %s %s has no key %s: %s", o.DataKey, o.Kind, o.Name, o.HasKey, text)
		}
	}
	return nil
}

// fits compares a value with the part of JSON Schema that cases use.
func fits(path string, value any, schema map[string]any) error {
	below := func(key string) map[string]any {
		next, _ := schema[key].(map[string]any)
		return next
	}
	for key := range schema {
		if !has([]string{"type", "additionalProperties", "minItems", "items", "format"}, key) {
			return skipf("expect.manifests.json_schema: the runner does not know %q", key)
		}
	}
	switch schema["type"] {
	case "object":
		object, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %v, want an object", path, value)
		}
		for key, v := range object {
			if err := fits(path+"."+key, v, below("additionalProperties")); err != nil {
				return err
			}
		}
	case "array":
		list, ok := value.([]any)
		least, _ := schema["minItems"].(int64)
		if !ok || int64(len(list)) < least {
			return fmt.Errorf("%s is %v, want a list of at least %d", path, value, least)
		}
		for _, v := range list {
			if err := fits(path, v, below("items")); err != nil {
				return err
			}
		}
	case "string":
		text, ok := value.(string)
		if !ok {
			return fmt.Errorf("%s is %v, want text", path, value)
		}
		if schema["format"] == "ip[:port]" && !isServer(text) {
			return fmt.Errorf("%s is %q, want an IP address, perhaps with a port", path, text)
		}
	case nil:
	default:
		return skipf("expect.manifests.json_schema: the runner does not know the type %v", schema["type"])
	}
	return nil
}

func isServer(text string) bool {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	_, err := netip.ParseAddr(text)
	return err == nil
}
