package k8smcs

import (
	"fmt"
	"slices"
)

// predecessor is the directive after which ours stands.
const predecessor = "acl"

// Directives is CoreDNS's list of directives with k8s_mcs in its place, right
// behind acl: acl, tsig, rewrite, any and loadbalance act on our names, and
// cache, header, dnssec, minimal, template and hosts do not. A cache costs more
// than our answer and holds on to it after it has changed, so it serves only
// what falls through.
func Directives(stock []string) ([]string, error) {
	at := slices.Index(stock, predecessor)
	if at < 0 {
		return nil, fmt.Errorf("place directive %s: this CoreDNS has no directive %s to stand behind", pluginName, predecessor)
	}
	return slices.Insert(slices.Clone(stock), at+1, pluginName), nil
}
