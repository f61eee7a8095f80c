package policy

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var timing = Timing{ProbeInterval: 5 * time.Second, RecoverHold: 30 * time.Second}

// story has a peer that answers ("+"), is silent ("-") or refuses ("!") in each
// second, and tells when which state came: "0 Synced, 310 Stale".
func story(t *testing.T, seed map[mcs.ClusterID]Status, asleepFrom, asleepTo int, peers map[mcs.ClusterID]func(second int) byte, seconds int) map[mcs.ClusterID]string {
	t.Helper()
	told := map[mcs.ClusterID]string{}
	states := maps.Clone(seed)
	facts := map[mcs.ClusterID]Facts{}
	var decided time.Time
	for second := range seconds {
		if second > asleepFrom && second < asleepTo {
			continue
		}
		now := start.Add(time.Duration(second) * time.Second)
		for id, does := range peers {
			f := facts[id]
			f.StaleAfter, f.Refusal = 5*time.Minute, ""
			switch does(second) {
			case '+':
				f.LastAlive, f.Read = now, true
			case '!':
				f.LastAlive, f.Refusal = now, "Forbidden"
			case '-':
				f.LastFailed = now
			}
			facts[id] = f
		}
		next := Decide(now, decided, timing, facts, states)
		for id, s := range next {
			if states[id].State != s.State || second == 0 {
				told[id] = strings.TrimPrefix(told[id]+", "+string(s.State)+"@"+now.Sub(start).String(), ", ")
			}
		}
		states, decided = next, now
	}
	return told
}

// does is "+" until the first second given, "-" until the next, and so on.
func does(turns ...int) func(int) byte {
	return func(second int) byte {
		sign := byte('+')
		for _, turn := range turns {
			if second >= turn {
				sign = '+' + '-' - sign
			}
		}
		return sign
	}
}

func always(sign byte) func(int) byte { return func(int) byte { return sign } }

func TestStatesOfPeers(t *testing.T) {
	lost := map[mcs.ClusterID]Status{"east": {State: Stale}}
	for name, c := range map[string]struct {
		seed        map[mcs.ClusterID]Status
		from, until int // asleep
		peers       map[mcs.ClusterID]func(int) byte
		want        string // of east
	}{
		"a peer that answers is Synced": {
			peers: map[mcs.ClusterID]func(int) byte{"east": does()}, want: "Synced@0s",
		},
		"one of two that is silent for stale-after is Stale, counted from its last sign": {
			peers: map[mcs.ClusterID]func(int) byte{"east": does(100), "west": does()}, want: "Synced@0s, Stale@6m39s",
		},
		"one that is silent for less is not": {
			peers: map[mcs.ClusterID]func(int) byte{"east": does(100, 390), "west": does()}, want: "Synced@0s",
		},
		"one that comes back counts again after recover-hold": {
			peers: map[mcs.ClusterID]func(int) byte{"east": does(100, 500), "west": does()}, want: "Synced@0s, Stale@6m39s, Synced@8m50s",
		},
		"one that comes and goes stays lost": {
			peers: map[mcs.ClusterID]func(int) byte{"east": does(100, 500, 520, 540, 560), "west": does()}, want: "Synced@0s, Stale@6m39s",
		},
		"the only peer can be lost": {
			peers: map[mcs.ClusterID]func(int) byte{"east": does(100)}, want: "Synced@0s, Stale@6m39s",
		},
		"when both fall silent at once, the fault is ours, without limit": {
			peers: map[mcs.ClusterID]func(int) byte{"east": does(100), "west": does(103)}, want: "Synced@0s, SelfIsolated@1m43s",
		},
		"one after the other is no fault of ours": {
			peers: map[mcs.ClusterID]func(int) byte{"east": does(100), "west": does(120)}, want: "Synced@0s, Stale@6m39s",
		},
		"after our fault the silence of one counts anew": {
			peers: map[mcs.ClusterID]func(int) byte{"east": does(100), "west": does(103, 500)}, want: "Synced@0s, SelfIsolated@1m43s, Synced@8m20s, Stale@13m20s",
		},
		"a peer that was lost before does not make the others' common silence less ours": {
			peers: map[mcs.ClusterID]func(int) byte{"north": does(10), "east": does(500), "west": does(502)}, want: "Synced@0s, SelfIsolated@8m22s",
		},
		"one that refuses is Held, however long": {
			peers: map[mcs.ClusterID]func(int) byte{"east": func(second int) byte {
				if second < 100 {
					return '+'
				}
				return '!'
			}, "west": does()}, want: "Synced@0s, Held@1m40s",
		},
		"one that was never read is Connecting": {
			peers: map[mcs.ClusterID]func(int) byte{"east": always(' '), "west": does()}, want: "Connecting@0s",
		},
		"one that is away at our start is lost after stale-after from then on": {
			peers: map[mcs.ClusterID]func(int) byte{"east": always('-'), "west": does()}, want: "Connecting@0s, Stale@5m0s",
		},
		"one that was lost before our restart is lost, and back after recover-hold": {
			seed: lost, peers: map[mcs.ClusterID]func(int) byte{"east": func(second int) byte {
				if second < 60 {
					return '-'
				}
				return '+'
			}, "west": does()}, want: "Stale@0s, Synced@1m30s",
		},
		"silence while we were asleep is nobody's": {
			from: 200, until: 2000,
			peers: map[mcs.ClusterID]func(int) byte{"east": does(150, 2010), "west": does()}, want: "Synced@0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := story(t, c.seed, c.from, c.until, c.peers, 2200)["east"]; got != c.want {
				t.Errorf("east is %s, want %s", got, c.want)
			}
		})
	}
}

func TestASecretThatCannotBeUsedIsRefused(t *testing.T) {
	got := Decide(start, time.Time{}, timing, map[mcs.ClusterID]Facts{"east": {Refused: "ForbiddenForm"}}, nil)["east"]
	if got.State != Refused || got.Reason != "ForbiddenForm" {
		t.Errorf("state is %+v", got)
	}
}
