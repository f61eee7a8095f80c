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
// then called portName; before are the ports of the import as it was, and a name
// that was given once stays for the life of the import.
func mergePorts(ordered []model.Export, before []model.Port) []model.Port {
	var ports []model.Port
	for _, e := range ordered {
		for _, p := range e.Ports {
			if model.FindPort(ports, p) < 0 && !hasName(ports, p.Name) {
				ports = append(ports, p)
			}
		}
	}
	for i, p := range ports {
		if p.Name != "" {
			continue
		}
		given := portName(p)
		if len(ports) > 1 || hadName(before, p, given) {
			for hasName(ports, given) {
				given += "-x" // somebody else's port has our name for this one
			}
			ports[i].Name = given
		}
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

// hadName reports whether the port stood in the import under a given name.
func hadName(before []model.Port, p model.Port, given string) bool {
	i := model.FindPort(before, p)
	return i >= 0 && strings.HasPrefix(before[i].Name, given)
}
