package main

import (
	"context"
	"strings"

	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// exportWhereami exports whereami from two clusters and looks at all of it in
// the third, which exports nothing.
func (s *story) exportWhereami(ctx context.Context) error {
	s.screen.step("making Service whereami with two Pods in %s and in %s, and exporting it", tokyo1, osaka1)
	for _, name := range exporters {
		if err := apply(ctx, s.clusters[name], podsOf(backends[name]), service("whereami", 8080, ""), export("whereami")); err != nil {
			return err
		}
	}
	got, err := s.observe(ctx, s.want)
	if err != nil {
		return err
	}
	if err := s.views(ctx, viewImports, viewServices, viewEndpoints, viewSlices); err != nil {
		return err
	}
	for _, q := range questions {
		if reply, ok := got.answers[q]; ok {
			s.screen.answer(s.dns.dig(q), remarks[q], reply)
		}
	}
	s.ip, s.asked = got.clusterIP, append(s.asked, questions...)
	return s.check(compare(s.want, got)...)
}

// Views of tokyo2, as kubectl gives them.
var (
	viewImports   = view{"kubectl get serviceimports -n test", "/apis/multicluster.x-k8s.io/v1beta1/namespaces/test/serviceimports", "", ""}
	viewServices  = view{"kubectl get services -n test", "/api/v1/namespaces/test/services", "", ""}
	viewEndpoints = view{"kubectl get endpoints -n test", "/api/v1/namespaces/test/endpoints", "", ""}
	viewSlices    = view{
		"kubectl get endpointslices -n test -l " + mcs.LabelServiceName + "=whereami",
		"/apis/discovery.k8s.io/v1/namespaces/test/endpointslices", mcs.LabelServiceName + "=whereami", "",
	}
)

// whereamiA is the question that everything is about.
var whereamiA = question{"udp", dns.TypeA, whereamiName}

// scaleToZero takes all Pods of one exporter away, and gives them back. The
// clusterset IP and the name have nothing to do with that.
func (s *story) scaleToZero(ctx context.Context) error {
	osaka := s.clusters[osaka1]
	if err := removePods(ctx, osaka, backends[osaka1]); err != nil {
		return err
	}
	err := s.reach(ctx, "both Pods of "+osaka1+" are deleted", "whereami", s.whereamiIs(exporters, endpointsOf(backends, tokyo1)...))
	if err != nil {
		return err
	}
	if err := s.views(ctx, viewImports, viewEndpoints); err != nil {
		return err
	}
	if err := s.dig(ctx, whereamiA, "the same IP; traffic to it goes to "+tokyo1, "NOERROR", s.ip); err != nil {
		return err
	}
	if err := apply(ctx, osaka, podsOf(backends[osaka1])); err != nil {
		return err
	}
	return s.reach(ctx, "both are made again", "whereami", s.whereamiIs(exporters, endpointsOf(backends, exporters...)...))
}

// endpointsOf are the endpoints of a service in clusters, as address:port.
func endpointsOf(pods map[string][]pod, clusters ...string) []string {
	var list []string
	for _, name := range clusters {
		for _, p := range pods[name] {
			list = append(list, p.ip+":8080")
		}
	}
	return list
}

func addressesOf(pods map[string][]pod, clusters ...string) []string {
	list := endpointsOf(pods, clusters...)
	for i := range list {
		list[i] = strings.TrimSuffix(list[i], ":8080")
	}
	return list
}
