package deploy

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

//go:embed base rbac/*.yaml stubdomains
var folders embed.FS

// Render returns the YAML documents of a kustomize folder, "base" or
// "stubdomains/kube-dns", in the order of its resources. The folders here use
// nothing of kustomize but resources, so these are the objects that
// `kubectl apply -k` applies; a kustomization that says more is an error.
func Render(folder string) ([][]byte, error) { return render(folders, folder) }

func render(fsys fs.FS, folder string) ([][]byte, error) {
	file := path.Join(folder, "kustomization.yaml")
	content, err := fs.ReadFile(fsys, file)
	if err != nil {
		return nil, fmt.Errorf("read kustomization: %w", err)
	}
	var kustomization struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Resources  []string `json:"resources"`
	}
	if err := yaml.UnmarshalStrict(content, &kustomization); err != nil {
		return nil, fmt.Errorf("read %s: only resources are followed: %w", file, err)
	}
	var documents [][]byte
	for _, resource := range kustomization.Resources {
		name := path.Join(folder, resource)
		info, err := fs.Stat(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("read resource of %s: %w", file, err)
		}
		var more [][]byte
		if info.IsDir() {
			more, err = render(fsys, name)
		} else {
			more, err = split(fsys, name)
		}
		if err != nil {
			return nil, err
		}
		documents = append(documents, more...)
	}
	return documents, nil
}

// split reads the documents of a file.
func split(fsys fs.FS, name string) ([][]byte, error) {
	content, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	var documents [][]byte
	reader := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		documents = append(documents, document)
	}
}
