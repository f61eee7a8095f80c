package caserun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// snapshot is what the fields of a check were after a step.
type snapshot struct {
	step   int
	fields []string
}

func (o UnchangedCheck) key() string {
	return strings.Join(append([]string{o.Cluster, o.Kind, o.Namespace, o.Name}, o.Fields...), " ")
}

// remember notes the fields of unchanged checks after a step.
func (w *world) remember(ctx context.Context, step int) error {
	for _, o := range w.c.Expect.Unchanged {
		if step < o.Between[0] || step > o.Between[1] {
			continue
		}
		object, err := w.get(ctx, o.Cluster, o.Kind, o.Namespace, o.Name)
		if err != nil {
			return fmt.Errorf("%s:%d: unchanged: %w", w.c.File, o.Line, err)
		}
		fields, err := fieldsOf(object, o.Fields)
		if err != nil {
			return fmt.Errorf("%s:%d: unchanged: %w", w.c.File, o.Line, err)
		}
		w.snapshots[o.key()] = append(w.snapshots[o.key()], snapshot{step, fields})
	}
	return nil
}

func (o UnchangedCheck) eval(_ context.Context, w *world) error {
	taken := w.snapshots[o.key()]
	if len(taken) < 2 {
		return fmt.Errorf("there are %d looks at the object, want 2 or more", len(taken))
	}
	for _, s := range taken[1:] {
		if !slices.Equal(s.fields, taken[0].fields) {
			if o.inverted {
				return nil
			}
			return fmt.Errorf("%s is %q after step %d and %q after step %d", o.key(), taken[0].fields, taken[0].step, s.fields, s.step)
		}
	}
	if o.inverted {
		return errors.New("nothing has changed")
	}
	return nil
}

// fieldsOf are the values at paths such as status.conditions[*].reason, which
// must not all be missing.
func fieldsOf(object *unstructured.Unstructured, paths []string) ([]string, error) {
	var all []string
	for _, path := range paths {
		values := []any{object.Object}
		for part := range strings.SplitSeq(path, ".") {
			key, each := strings.CutSuffix(part, "[*]")
			var next []any
			for _, v := range values {
				if m, ok := v.(map[string]any); ok && m[key] != nil {
					next = append(next, m[key])
				}
			}
			if each {
				var items []any
				for _, v := range next {
					if list, ok := v.([]any); ok {
						items = append(items, list...)
					}
				}
				next = items
			}
			values = next
		}
		if len(values) == 0 {
			return nil, fmt.Errorf("%s/%s has no %s", object.GetKind(), object.GetName(), path)
		}
		content, err := json.Marshal(values)
		if err != nil {
			return nil, fmt.Errorf("show %s: %w", path, err)
		}
		all = append(all, path+"="+string(content))
	}
	return all, nil
}

func (o SameCheck) eval(ctx context.Context, w *world) error {
	begin := time.Now()
	for {
		var first []string
		for i, cluster := range o.Clusters {
			object, err := w.get(ctx, cluster, o.Kind, o.Namespace, o.Name)
			if err != nil {
				return fmt.Errorf("%s %s/%s in %s: %w", o.Kind, o.Namespace, o.Name, cluster, err)
			}
			fields, err := fieldsOf(object, o.Fields)
			if err != nil {
				return err
			}
			if i == 0 {
				first = fields
			} else if !slices.Equal(fields, first) {
				if o.inverted {
					return nil
				}
				return fmt.Errorf("%s %s/%s is %q in %s and %q in %s", o.Kind, o.Namespace, o.Name, first, o.Clusters[0], fields, cluster)
			}
		}
		if time.Since(begin) >= time.Duration(o.StableFor*float64(time.Second)) {
			break
		}
		if err := sleep(ctx, 10*pollPause); err != nil {
			return err
		}
	}
	if o.inverted {
		return errors.New("they are the same everywhere")
	}
	return nil
}
