package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// MaxStored is the greatest size in bytes of the stored offers of one service.
const MaxStored = 16 << 10

// storedVersion is the format written; it is raised when an older reader would
// misread the newer form.
const storedVersion = 1

// The stored form has its own types: it outlives the Go ones.
type stored struct {
	Version int            `json:"version"`
	Exports []storedExport `json:"exports"`
}

type storedExport struct {
	Cluster               string            `json:"cluster"`
	Created               time.Time         `json:"created"`
	Type                  string            `json:"type"`
	Ports                 []storedPort      `json:"ports,omitempty"`
	SessionAffinity       string            `json:"sessionAffinity,omitempty"`
	AffinityTimeout       int32             `json:"sessionAffinityTimeoutSeconds,omitempty"`
	InternalTrafficPolicy string            `json:"internalTrafficPolicy,omitempty"`
	TrafficDistribution   string            `json:"trafficDistribution,omitempty"`
	Families              []Family          `json:"ipFamilies,omitempty"`
	Labels                map[string]string `json:"labels,omitempty"`
	Annotations           map[string]string `json:"annotations,omitempty"`
}

type storedPort struct {
	Name        string `json:"name,omitempty"`
	Protocol    string `json:"protocol"`
	Port        int32  `json:"port"`
	AppProtocol string `json:"appProtocol,omitempty"`
}

// EncodeExports writes the service-level fields of offers, given in order of
// precedence, for the annotation mcs.AnnotationExports. Equal offers give equal
// text. Offers that would pass MaxStored are left out, youngest first, and named.
func EncodeExports(exports []Export) (text string, omitted []mcs.ClusterID) {
	form := stored{Version: storedVersion, Exports: make([]storedExport, 0, len(exports))}
	size := len(`{"version":1,"exports":[]}`)
	for i, e := range exports {
		s := storedExport{
			Cluster: string(e.Cluster), Created: storable(e.Created), Type: string(e.Kind),
			SessionAffinity: e.SessionAffinity, AffinityTimeout: e.AffinityTimeout,
			InternalTrafficPolicy: e.InternalTrafficPolicy, TrafficDistribution: e.TrafficDistribution,
			Families: e.Families, Labels: e.Labels, Annotations: e.Annotations,
		}
		for _, p := range e.Ports {
			s.Ports = append(s.Ports, storedPort{p.Name, p.Protocol, p.Number, p.AppProtocol})
		}
		size += len(mustMarshal(s)) + len(",")
		if size > MaxStored {
			for _, left := range exports[i:] {
				omitted = append(omitted, left.Cluster)
			}
			break
		}
		form.Exports = append(form.Exports, s)
	}
	return string(mustMarshal(form)), omitted
}

// storable is a time that JSON can carry: RFC 3339 ends with the year 9999, and
// a peer's clock, or a hostile peer, may be past it once its zone is taken off.
func storable(t time.Time) time.Time {
	if t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
		return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	}
	return t
}

// mustMarshal encodes a stored form. Its types hold only strings, numbers, maps
// of strings and storable times, none of which can fail.
func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("model: encode stored exports: " + err.Error())
	}
	return b
}

// DecodeExports reads what EncodeExports wrote. A text that is no such form, or
// of a newer version, gives an error and nothing else; a single entry that makes
// no sense gives an error beside the good ones. What an error speaks of is not
// gone: the caller leaves it as it is.
func DecodeExports(key mcs.ServiceKey, text string) ([]Export, error) {
	var form stored
	if err := json.Unmarshal([]byte(text), &form); err != nil {
		return nil, fmt.Errorf("decode annotation %s of %s: %w", mcs.AnnotationExports, key, err)
	}
	if form.Version != storedVersion {
		return nil, fmt.Errorf("decode annotation %s of %s: version %d, this syncd reads version %d", mcs.AnnotationExports, key, form.Version, storedVersion)
	}
	exports := make([]Export, 0, len(form.Exports))
	var problems []error
	for i, s := range form.Exports {
		e, err := s.export(key)
		if err != nil {
			problems = append(problems, fmt.Errorf("decode annotation %s of %s: exports[%d]: %w", mcs.AnnotationExports, key, i, err))
			continue
		}
		exports = append(exports, e)
	}
	return exports, errors.Join(problems...)
}

func (s storedExport) export(key mcs.ServiceKey) (Export, error) {
	id, err := mcs.ParseClusterID(s.Cluster)
	if err != nil {
		return Export{}, err
	}
	kind := Kind(s.Type)
	if kind != ClusterSetIP && kind != Headless {
		return Export{}, fmt.Errorf("cluster %s has type %q: want %s or %s", id, s.Type, ClusterSetIP, Headless)
	}
	e := Export{
		Cluster: id, Key: key, Created: s.Created, Kind: kind,
		Traffic: Traffic{
			SessionAffinity: s.SessionAffinity, AffinityTimeout: s.AffinityTimeout,
			InternalTrafficPolicy: s.InternalTrafficPolicy, TrafficDistribution: s.TrafficDistribution,
		},
		Families: s.Families, Labels: s.Labels, Annotations: s.Annotations,
	}
	for _, p := range s.Ports {
		e.Ports = append(e.Ports, Port{p.Name, p.Protocol, p.Port, p.AppProtocol})
	}
	return e, nil
}
