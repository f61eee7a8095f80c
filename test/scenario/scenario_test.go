package scenario

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

var update = flag.Bool("update", false, "write the objects and answers of each story anew")

func TestStories(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "testdata", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			story, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			objects, answers, err := tell(story)
			if err != nil {
				t.Fatal(err)
			}
			for i := range story.Files {
				var got string
				switch story.Files[i].Name {
				case "objects":
					got = objects
				case "answers":
					got = answers
				default:
					continue
				}
				if diff := cmp.Diff(string(story.Files[i].Data), got); diff != "" && !*update {
					t.Errorf("%s (-want +got):\n%s", story.Files[i].Name, diff)
				}
				story.Files[i].Data = []byte(got)
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(story), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// tell runs a story and shows how it ends.
func tell(story *txtar.Archive) (objects, answers string, err error) {
	w, later, queries := newWorld(), map[string]string{}, ""
	parts := map[string]bool{}
	for _, f := range story.Files {
		folder, name, inFolder := strings.Cut(f.Name, "/")
		switch {
		case inFolder && folder == "later":
			later[name] = string(f.Data)
		case inFolder:
			if err := w.apply(mcs.ClusterID(folder), string(f.Data)); err != nil {
				return "", "", fmt.Errorf("%s: %w", f.Name, err)
			}
		case f.Name == "queries":
			queries = string(f.Data)
		case f.Name != "objects" && f.Name != "answers":
			return "", "", fmt.Errorf("file %q: want CLUSTER/NAME, later/NAME, queries, objects or answers", f.Name)
		}
		parts[f.Name] = true
	}
	if !parts["objects"] || !parts["answers"] || !strings.HasPrefix(string(story.Comment), "#") {
		return "", "", errors.New("a story begins with a line of #, and has objects and answers")
	}
	synced := false
	for line := range strings.Lines(string(story.Comment)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := w.step(strings.Fields(line), later); err != nil {
			return "", "", fmt.Errorf("step %q: %w", line, err)
		}
		synced = synced || line == "sync"
	}
	if !synced {
		return "", "", errors.New("the story has no step sync")
	}
	for name := range later {
		return "", "", fmt.Errorf("later/%s is never applied", name)
	}
	answers, err = w.showAnswers(queries)
	return w.showObjects(), answers, err
}

// step carries one step out; a file of later that is used is taken out of it.
func (w *world) step(words []string, later map[string]string) error {
	if words[0] == "sync" && len(words) == 1 {
		if _, err := w.sync(); err != nil {
			return err
		}
		again, err := w.sync()
		if err == nil && again != 0 {
			return fmt.Errorf("a second sync wants %d writes", again)
		}
		return err
	}
	if len(words) < 2 {
		return errors.New("unknown step")
	}
	cluster := mcs.ClusterID(words[1])
	if _, known := w.objects[cluster]; !known {
		return fmt.Errorf("no cluster %s", cluster)
	}
	switch verb := words[0]; {
	case verb == "silence" && len(words) == 2:
		w.unknown[cluster] = true
	case verb == "hear" && len(words) == 2:
		delete(w.unknown, cluster)
	case verb == "leave" && len(words) == 2:
		delete(w.objects, cluster)
		delete(w.unknown, cluster)
	case verb == "apply" && len(words) == 3:
		text, ok := later[words[2]]
		if !ok {
			return fmt.Errorf("no file later/%s", words[2])
		}
		delete(later, words[2])
		return w.apply(cluster, text)
	case verb == "delete" && len(words) == 3:
		if _, ok := w.objects[cluster][words[2]]; !ok {
			return fmt.Errorf("cluster %s has no %s", cluster, words[2])
		}
		delete(w.objects[cluster], words[2])
	default:
		return errors.New("unknown step")
	}
	return nil
}

// A runner that takes anything proves nothing.
func TestStoriesThatMakeNoSenseAreRefused(t *testing.T) {
	const end = "-- queries --\n-- objects --\n-- answers --\n"
	for name, c := range map[string]struct{ story, problem string }{
		"an unknown step":        {"# x\nsink east\n" + "-- east/a.yaml --\n" + end, "no cluster east"},
		"a step with a typo":     {"# x\nsilense east\n" + "-- east/a.yaml --\nkind: Service\nmetadata: {name: a}\n" + end, "unknown step"},
		"no step at all":         {"# x\n" + end, "no step sync"},
		"no sentence":            {"sync\n" + end, "begins with a line of #"},
		"no answers":             {"# x\nsync\n-- objects --\n", "has objects and answers"},
		"a file of no use":       {"# x\nsync\n-- later/a.yaml --\n" + end, "never applied"},
		"a section with a typo":  {"# x\nsync\n-- querys --\n" + end, "want CLUSTER/NAME"},
		"a kind that is unknown": {"# x\nsync\n-- east/a.yaml --\nkind: Pod\n" + end, `kind "Pod"`},
		"a field with a typo":    {"# x\nsync\n-- east/a.yaml --\nkind: Service\nspek: {}\n" + end, "spek"},
		"a question of no type":  {"# x\nsync\n-- queries --\nMX a.clusterset.local\n-- objects --\n-- answers --\n", "want TYPE NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := tell(txtar.Parse([]byte(c.story)))
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("error is %v, want one with %q", err, c.problem)
			}
		})
	}
}
