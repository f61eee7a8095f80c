package caserun

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ReadDir reads every case file (C*.yaml) of a folder, in the order of their
// names. All problems are returned together, each with file and line.
func ReadDir(dir string) ([]*Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, "C*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list case files: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("list case files: %s has no C*.yaml", dir)
	}
	slices.Sort(files)
	var (
		cases []*Case
		errs  []error
	)
	for _, file := range files {
		content, err := os.ReadFile(file) //nolint:gosec // the caller says which folder
		if err != nil {
			errs = append(errs, fmt.Errorf("read case: %w", err))
			continue
		}
		c, err := Parse(filepath.Base(file), content)
		errs = append(errs, err)
		cases = append(cases, c)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return cases, nil
}

// Parse reads one case file. A word of the schema that the runner does not know
// yet is noted in Skips; a word that is in neither is an error.
func Parse(file string, content []byte) (*Case, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(document.Content) != 1 {
		return nil, fmt.Errorf("%s: it is empty", file)
	}
	c := &Case{File: file}
	r := &reader{file: file}
	r.decode(document.Content[0], reflect.ValueOf(c).Elem(), "case")
	r.check(c)
	c.Skips = r.skips
	return c, errors.Join(r.errs...)
}

type reader struct {
	file  string
	skips []string
	errs  []error
}

func (r *reader) fail(line int, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", r.file, line, fmt.Sprintf(format, args...)))
}

func (r *reader) skip(reason string) {
	if !slices.Contains(r.skips, reason) {
		r.skips = append(r.skips, reason)
	}
}

// decode fills a value from a node. where is the path of keys without indices,
// under which notYet lists what the runner does not know yet.
func (r *reader) decode(n *yaml.Node, into reflect.Value, where string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch into.Interface().(type) {
	case Object:
		value, ok := plain(n).(map[string]any)
		if !ok {
			r.fail(n.Line, "%s: want a mapping", where)
			return
		}
		into.Set(reflect.ValueOf(Object(value)))
		return
	case Words:
		if n.Kind == yaml.ScalarNode {
			into.Set(reflect.ValueOf(Words{n.Value}))
			return
		}
	}
	switch into.Kind() { //nolint:exhaustive // the kinds that case.go uses
	case reflect.Pointer:
		value := reflect.New(into.Type().Elem())
		r.decode(n, value.Elem(), where)
		into.Set(value)
	case reflect.Interface:
		into.Set(reflect.ValueOf(plain(n)))
	case reflect.Struct:
		r.mapping(n, into, where)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			r.fail(n.Line, "%s: want a list", where)
			return
		}
		list := reflect.MakeSlice(into.Type(), len(n.Content), len(n.Content))
		for i, item := range n.Content {
			r.decode(item, list.Index(i), where)
		}
		into.Set(list)
	case reflect.Map:
		if n.Kind != yaml.MappingNode {
			r.fail(n.Line, "%s: want a mapping", where)
			return
		}
		m := reflect.MakeMap(into.Type())
		for i := 0; i+1 < len(n.Content); i += 2 {
			value := reflect.New(into.Type().Elem()).Elem()
			r.decode(n.Content[i+1], value, where)
			m.SetMapIndex(reflect.ValueOf(n.Content[i].Value), value)
		}
		into.Set(m)
	default:
		r.scalar(n, into, where)
	}
}

func (r *reader) mapping(n *yaml.Node, into reflect.Value, where string) {
	if n.Kind != yaml.MappingNode {
		r.fail(n.Line, "%s: want a mapping", where)
		return
	}
	if line := into.FieldByName("Line"); line.IsValid() {
		line.SetInt(int64(n.Line))
	}
	keys := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if first, twice := keys[key.Value]; twice {
			r.fail(key.Line, "%s.%s: it is there twice, first in line %d", where, key.Value, first)
			continue
		}
		keys[key.Value] = key.Line
		if field, ok := fieldOf(into, key.Value); ok {
			r.decode(n.Content[i+1], field, where+"."+key.Value)
			continue
		}
		path := strings.TrimPrefix(where+"."+key.Value, "case.")
		if reason, ok := notYet[path]; ok {
			r.skip(path + ": " + reason)
			continue
		}
		r.fail(key.Line, "%s: no such key in SCHEMA.md", path)
	}
	if event, ok := reflect.TypeAssert[*Event](into.Addr()); ok {
		event.keys = keys
	}
}

func fieldOf(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("case") == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func (r *reader) scalar(n *yaml.Node, into reflect.Value, where string) {
	if n.Kind != yaml.ScalarNode {
		r.fail(n.Line, "%s: want one value", where)
		return
	}
	var err error
	switch into.Kind() { //nolint:exhaustive // the kinds that case.go uses
	case reflect.String:
		into.SetString(n.Value)
	case reflect.Bool:
		var v bool
		v, err = strconv.ParseBool(n.Value)
		into.SetBool(v)
	case reflect.Int:
		var v int
		v, err = strconv.Atoi(n.Value)
		into.SetInt(int64(v))
	case reflect.Float64:
		var v float64
		v, err = strconv.ParseFloat(n.Value, 64)
		into.SetFloat(v)
	default:
		err = fmt.Errorf("the reader has no way to read a %s", into.Kind())
	}
	if err != nil {
		r.fail(n.Line, "%s: %v", where, err)
	}
}

// plain is a node as JSON has it. Time stamps stay text.
func plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.AliasNode:
		return plain(n.Alias)
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = plain(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			list = append(list, plain(item))
		}
		return list
	case yaml.ScalarNode:
		switch n.Tag {
		case "!!int":
			if v, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
				return v
			}
		case "!!float":
			if v, err := strconv.ParseFloat(n.Value, 64); err == nil {
				return v
			}
		case "!!bool":
			return n.Value == "true"
		case "!!null":
			return nil
		}
		return n.Value
	case yaml.DocumentNode:
	}
	return nil
}
