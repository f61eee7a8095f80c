package caserun

import (
	"strings"
	"testing"
)

const smallCase = `id: C900
layer: dns
clusters:
  amber:
    objects: []
queries:
- after: 0
  at: amber
  name: pear.orchard.svc.clusterset.local.
  type: A
  expect:
    rcode: NXDOMAIN
`

func TestUnknownWordsAreErrorsWithFileAndLine(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"a key of the head", "layer: dns", "layer: dns\ncolour: red", "c.yaml:3: colour: no such key"},
		{"a key of a query", "  type: A", "  type: A\n  flavour: x", "c.yaml:11: queries.flavour: no such key"},
		{"an expectation", "    rcode: NXDOMAIN", "    rcode: NXDOMAIN\n    answr: []", "c.yaml:13: queries.expect.answr: no such key"},
		{"a verb", "queries:", "events:\n- step: 1\n  do: juggle\nqueries:", `c.yaml:7: do is "juggle"`},
		{"a value of set", "queries:", "events:\n- step: 1\n  do: api\n  cluster: amber\n  set: tired\nqueries:", `c.yaml:7: api.set is "tired"`},
		{"an rcode", "NXDOMAIN", "NXDOMAINE", `c.yaml:7: rcode is "NXDOMAINE"`},
		{"a type", "type: A", "type: AAAAA", `c.yaml:7: type is "AAAAA"`},
		{"a layer", "layer: dns", "layer: moon", `layer is "moon"`},
		{"a number", "after: 0", "after: soon", "c.yaml:7: case.queries.after: "},
		{"a key that is there twice", "layer: dns", "layer: dns\nlayer: dns", "c.yaml:3: case.layer: it is there twice"},
		{"a relative name", "local.", "local", "want an absolute domain name"},
		{"a query without an rcode", "rcode: NXDOMAIN", "aa: true", "expect has no rcode"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(smallCase, c.old, c.new, 1)
			if text == smallCase {
				t.Fatalf("the small case has no %q", c.old)
			}
			_, err := Parse("c.yaml", []byte(text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestWordsThatAreNotYetKnownSkipTheCase(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"an option", "queries:", "config:\n  vip_pool_size: 3\nqueries:", "config.vip_pool_size"},
		{"a verb", "queries:", "events:\n- step: 1\n  do: conflict_storm\nqueries:", "verb conflict_storm"},
		{"a key that another verb has", "queries:", "events:\n- step: 1\n  do: wait\n  seconds: 1\n  cluster: amber\nqueries:", "verb wait: the runner does not know cluster"},
		{"an expectation", "queries:", "expect:\n  goroutines: []\nqueries:", "expect.goroutines"},
		{"a way to ask", "  type: A", "  type: A\n  via: front", "queries.via front"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse("c.yaml", []byte(strings.Replace(smallCase, c.old, c.new, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Skips) != 1 || !strings.Contains(got.Skips[0], c.want) {
				t.Errorf("reasons to skip are %q, want one with %q", got.Skips, c.want)
			}
		})
	}
}

func TestAllCaseFilesAreRead(t *testing.T) {
	cases, err := ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	layers := map[string]int{}
	for _, c := range cases {
		layers[c.Layer]++
		if c.Layer == "dns" && len(c.Skips) > 0 {
			t.Errorf("%s is of layer dns and skipped: %q", c.ID, c.Skips)
		}
	}
	if layers["dns"] < 51 || layers["sync"] < 30 || layers["config"] < 5 {
		t.Errorf("there are %v cases by layer", layers)
	}
}
