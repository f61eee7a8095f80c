package merge

import (
	"strconv"
	"strings"

	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// mergePorts is the union of the ports of ordered offers: first by name, then by
// protocol and number. A port whose name is taken by another (protocol, number)
// is left out, and to have no name is a name; one whose (protocol, number) is
// taken goes under that name.
//
// A Service with several ports refuses one without a name, so an unnamed port is
// then called portName. It has that name reserved from the start, so that a port
// of a younger export that is really called so cannot take it away. before are
// the ports of the import as it was: a name that was given once stays for the
// life of the import.
func mergePorts(ordered []model.Export, before []model.Port) []model.Port {
	var ports []model.Port
	given := -1 // the port that has no name of its own
	for _, e := range ordered {
		for _, p := range e.Ports {
			if model.FindPort(ports, p) >= 0 || p.Name == "" && given >= 0 || hasName(ports, p.Name) {
				continue
			}
			if p.Name == "" {
				given = len(ports)
				for p.Name = portName(p); hasName(ports, p.Name); {
					p.Name += "-x" // an older export has our name for this one
				}
			}
			ports = append(ports, p)
		}
	}
	if given >= 0 && len(ports) == 1 && !hadName(before, ports[0]) {
		ports[0].Name = ""
	}
	return ports
}

// portName is the name of an unnamed port among others: port-80, port-53-udp.
func portName(p model.Port) string {
	name := "port-" + strconv.Itoa(int(p.Number))
	if p.Protocol != "TCP" {
		name += "-" + strings.ToLower(p.Protocol)
	}
	return name
}

func hasName(ports []model.Port, name string) bool {
	for _, p := range ports {
		if p.Name == name {
			return true
		}
	}
	return false
}

// hadName reports whether the port stood in the import under its given name.
func hadName(before []model.Port, p model.Port) bool {
	i := model.FindPort(before, p)
	return i >= 0 && before[i].Name == p.Name
}
