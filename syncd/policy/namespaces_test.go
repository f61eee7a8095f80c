package policy

import "testing"

func TestNamespacesThatTakeNoPart(t *testing.T) {
	for name, c := range map[string]struct {
		denied, allowed string
		closed, open    []string
	}{
		"by default":                      {DeniedByDefault, "", []string{"default", "kube-system", "kube-anything"}, []string{"shop", "kube", "kubernetes", "default2", ""}},
		"but for one that is allowed":     {DeniedByDefault, "kube-dns, default", []string{"kube-system"}, []string{"kube-dns", "default"}},
		"others in place of the defaults": {"bank", "", []string{"bank"}, []string{"default", "kube-system", "bank2"}},
		"all but one":                     {"*", "shop", []string{"bank", "default"}, []string{"shop"}},
		"none":                            {"", "", nil, []string{"default", "kube-system"}},
	} {
		t.Run(name, func(t *testing.T) {
			var (
				n   Namespaces
				err error
			)
			if n.Denied, err = ParseDenied(c.denied); err != nil {
				t.Fatal(err)
			}
			if n.Allowed, err = ParseAllowed(c.allowed); err != nil {
				t.Fatal(err)
			}
			for _, namespace := range c.closed {
				if !n.Closed(namespace) {
					t.Errorf("%q takes part", namespace)
				}
			}
			for _, namespace := range c.open {
				if n.Closed(namespace) {
					t.Errorf("%q takes no part", namespace)
				}
			}
		})
	}
}

func TestListsOfNamespacesThatAreWrong(t *testing.T) {
	for _, text := range []string{"Shop", "a b", "kube-*x", "*-system", "a.b", "-a", "a/b"} {
		if items, err := ParseDenied(text); err == nil {
			t.Errorf("ParseDenied(%q) = %q", text, items)
		}
		if items, err := ParseAllowed(text); err == nil {
			t.Errorf("ParseAllowed(%q) = %q", text, items)
		}
	}
	if items, err := ParseAllowed("kube-*"); err == nil {
		t.Errorf("ParseAllowed takes a pattern: %q", items)
	}
}
