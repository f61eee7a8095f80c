// Package data is the set of services that the benchmark serves, in three
// sizes: what is written to the API server, what is asked, and what the right
// answer is. Nothing in it is random.
package data

import (
	"fmt"
	"slices"
)

// Zone is the zone of all names.
const Zone = "clusterset.local."

// Size names a set. Each contains the one before.
type Size string

// The sizes: about 1,000, 20,000 and 100,000 endpoints.
const (
	S Size = "S" // 100 services
	M Size = "M" // 1,000
	L Size = "L" // 5,000
)

// Sizes are all of them, the smallest first.
var Sizes = []Size{S, M, L}

// tier is what a size adds to the one before.
type tier struct {
	hl250, hl50, hl3, cip int // services
	perCluster            int // endpoints of a ClusterSetIP service in each cluster
	namespaces            int
}

var tiers = []tier{
	{hl250: 1, hl50: 4, hl3: 15, cip: 80, perCluster: 2, namespaces: 2},
	{hl250: 9, hl50: 46, hl3: 125, cip: 720, perCluster: 6, namespaces: 4},
	{hl250: 40, hl50: 200, hl3: 560, cip: 3200, perCluster: 6, namespaces: 14},
}

// Kind is a shape of service.
type Kind string

// The kinds; the number is that of all endpoints.
const (
	ClusterSetIP Kind = "web"
	Headless3    Kind = "db3"   // three clusters with one each
	Headless50   Kind = "db50"  // five with ten
	Headless250  Kind = "db250" // five with fifty
)

// Service is one import with its slices.
type Service struct {
	Name, Namespace string
	Kind            Kind
	IP              string // empty for a headless one
	Ports           []Port
	Slices          []Slice
}

// Port is a TCP port.
type Port struct {
	Name   string
	Number int32
}

// Slice is what one cluster exports.
type Slice struct {
	Name, Cluster string
	Endpoints     []Endpoint
}

// Endpoint is a ready one. Host is empty for a ClusterSetIP service.
type Endpoint struct {
	Address, Host string
}

// FQDN is the service's name.
func (s *Service) FQDN() string { return s.Name + "." + s.Namespace + ".svc." + Zone }

// Endpoints counts those of all clusters.
func (s *Service) Endpoints() int {
	n := 0
	for _, sl := range s.Slices {
		n += len(sl.Endpoints)
	}
	return n
}

// Set is the services of a size. What the size before lacks comes last.
type Set struct {
	Size       Size
	Services   []*Service
	Namespaces []string
}

// Endpoints counts those of all services.
func (s *Set) Endpoints() int {
	n := 0
	for _, svc := range s.Services {
		n += svc.Endpoints()
	}
	return n
}

// Of lists the services of a kind.
func (s *Set) Of(kind Kind) []*Service {
	return slices.Collect(func(yield func(*Service) bool) {
		for _, svc := range s.Services {
			if svc.Kind == kind && !yield(svc) {
				return
			}
		}
	})
}

// Build makes the set of a size.
func Build(size Size) *Set {
	b := builder{set: &Set{Size: size}, count: make(map[Kind]int)}
	for i, t := range tiers {
		b.tier(t)
		if Sizes[i] == size {
			return b.set
		}
	}
	panic("no size " + string(size))
}

type builder struct {
	set       *Set
	count     map[Kind]int
	addresses int
	first     int // of the tier's namespaces
}

func (b *builder) tier(t tier) {
	b.first = len(b.set.Namespaces)
	for range t.namespaces {
		b.set.Namespaces = append(b.set.Namespaces, fmt.Sprintf("ns-%02d", len(b.set.Namespaces)))
	}
	b.add(t.hl250, Headless250, 5, 50)
	b.add(t.hl50, Headless50, 5, 10)
	b.add(t.hl3, Headless3, 3, 1)
	b.add(t.cip, ClusterSetIP, 3, t.perCluster)
}

func (b *builder) add(n int, kind Kind, clusters, perCluster int) {
	for range n {
		i := b.count[kind]
		b.count[kind]++
		s := &Service{Name: fmt.Sprintf("%s-%d", kind, i), Kind: kind, Ports: []Port{{"db", 5432}}}
		own := b.set.Namespaces[b.first:]
		s.Namespace = own[len(b.set.Services)%len(own)]
		if kind == ClusterSetIP {
			s.IP = fmt.Sprintf("172.16.%d.%d", i/250, 1+i%250)
			s.Ports = []Port{{"http", 80}, {"metrics", 9090}}
		}
		for c := range clusters {
			sl := Slice{Cluster: fmt.Sprintf("cluster-%d", c+1)}
			sl.Name = s.Name + "-" + sl.Cluster
			for e := range perCluster {
				ep := Endpoint{Address: b.address()}
				if kind != ClusterSetIP {
					ep.Host = fmt.Sprintf("%s-%d", s.Name, e)
				}
				sl.Endpoints = append(sl.Endpoints, ep)
			}
			s.Slices = append(s.Slices, sl)
		}
		b.set.Services = append(b.set.Services, s)
	}
}

// address is one that no other endpoint has.
func (b *builder) address() string {
	n := b.addresses
	b.addresses++
	return fmt.Sprintf("10.%d.%d.%d", 1+n/62500, n/250%250, 1+n%250)
}
