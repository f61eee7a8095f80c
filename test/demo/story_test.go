package main

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

func TestAStoryStopsAtWhatIsWrong(t *testing.T) {
	s := &story{}
	right := finding{"a", []string{"1"}, []string{"1"}}
	missing := finding{"b", []string{"1", "2"}, []string{"1"}}
	if err := s.check(right); err != nil || s.right != 1 {
		t.Errorf("check = %v with %d right", err, s.right)
	}
	wrong, ok := errors.AsType[*wrongError](s.check(right, missing))
	if !ok || len(wrong.wrong) != 1 || wrong.wrong[0].what != "b" {
		t.Errorf("check found %v", wrong)
	}
	if want := "Not as wanted: 1\nb (- wanted, + got)\n  - 2"; wrong.Error() != want {
		t.Errorf("it says %q, want %q", wrong.Error(), want)
	}
}

func TestRequestsAreThoseOfOneUserSinceATime(t *testing.T) {
	begin := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	events := []kubetest.AuditEvent{
		{User: syncdUser, Verb: "update", Resource: "services", Name: "before", Time: begin.Add(-time.Second)},
		{User: syncdUser, Verb: "update", Resource: "services", Name: "after", Time: begin.Add(time.Second)},
		{User: syncdUser, Verb: "watch", Resource: "services", Time: begin.Add(time.Second)},
		{User: syncdUser, Verb: "update", Resource: "leases", Name: "syncd", Time: begin.Add(time.Second)},
		{User: peerUser, Verb: "update", Resource: "services", Name: "another's", Time: begin.Add(time.Second)},
	}
	got := requests(events, syncdUser, begin, kubetest.AuditEvent.Changes)
	if want := []string{"update services after"}; !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
}

func TestBriefAnswersFitOneLine(t *testing.T) {
	const target = "whereami-0.osa-cluster-01." + headlessName
	for want, records := range map[string][]string{
		"NOERROR":                   {},
		"NOERROR 10.0.0.1 10.0.0.2": {helloName + " 5 IN A 10.0.0.2", helloName + " 5 IN A 10.0.0.1"},
		"NOERROR, 1 with a target":  {"_http._tcp." + headlessName + " 5 IN SRV 0 100 8080 " + target},
	} {
		reply := answer{message: new(dns.Msg)}
		for _, r := range records {
			reply.message.Answer = append(reply.message.Answer, parse(t, r)...)
		}
		if got := reply.brief(); got != want {
			t.Errorf("brief is %q, want %q", got, want)
		}
	}
}
