package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

var brake = Brake{Window: 30 * time.Second, Settle: time.Second, Release: 10 * time.Minute}

func services(count int) []mcs.ServiceKey {
	keys := make([]mcs.ServiceKey, count)
	for i := range keys {
		keys[i] = mcs.ServiceKey{Namespace: "shop", Name: fmt.Sprintf("s%03d", i)}
	}
	return keys
}

func after(d time.Duration) time.Time { return start.Add(d) }

// withdraw has a peer with so many exports withdraw some of them, one each step.
func withdraw(exports, count int, step time.Duration) (*Ledger, time.Time) {
	l := NewLedger(time.Time{})
	all := services(exports)
	for _, key := range all {
		l.Declare(key)
	}
	now := start
	for _, key := range all[:count] {
		l.Withdraw(key, now)
		now = now.Add(step)
	}
	return l, now
}

func stay(mcs.ServiceKey) bool { return false }

func TestTooManyWithdrawals(t *testing.T) {
	for name, c := range map[string]struct {
		exports, withdrawn int
		held               bool
	}{
		"all of many are held":               {20, 20, true},
		"more than half are held":            {10, 6, true},
		"half pass":                          {10, 5, false},
		"all of four pass":                   {4, 4, false},
		"all of five are held":               {5, 5, true},
		"four of five pass":                  {5, 4, false},
		"five of nine are held":              {9, 5, true},
		"one of a thousand passes":           {1000, 1, false},
		"five hundred of a thousand pass":    {1000, 500, false},
		"501 of a thousand are held at once": {1000, 501, true},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := withdraw(c.exports, c.withdrawn, 0)
			withdrawn, turn := l.Judge(after(time.Second), brake, stay, time.Time{})
			if held := turn == PutOn; held != c.held || held != l.Withholds(services(1)[0]) || held == (len(withdrawn) > 0) {
				t.Errorf("turn %q, %d withdrawn, %d withheld, want held: %v", turn, len(withdrawn), l.Withheld(), c.held)
			}
		})
	}
}

func TestWithdrawalsWaitForMoreOfTheirKind(t *testing.T) {
	l, now := withdraw(20, 3, 100*time.Millisecond)
	if withdrawn, _ := l.Judge(now, brake, stay, time.Time{}); len(withdrawn) > 0 {
		t.Errorf("%v withdrawn while more come", withdrawn)
	}
	if withdrawn, _ := l.Judge(now.Add(time.Second), brake, stay, time.Time{}); len(withdrawn) != 3 {
		t.Errorf("%v withdrawn, want 3", withdrawn)
	}
	l, now = withdraw(4, 1, 0)
	if withdrawn, _ := l.Judge(now, brake, stay, time.Time{}); len(withdrawn) != 1 {
		t.Errorf("%v withdrawn of so few that they can never be too many", withdrawn)
	}
}

func TestSlowWithdrawalsCountTogetherWithinTheWindow(t *testing.T) {
	for _, c := range []struct {
		step time.Duration
		want bool
	}{{2 * time.Second, true}, {10 * time.Second, false}} {
		step, want := c.step, c.want
		l := NewLedger(time.Time{})
		all := services(10)
		for _, key := range all {
			l.Declare(key)
		}
		now, held := start, false
		for _, key := range all {
			l.Withdraw(key, now)
			now = now.Add(step)
			_, turn := l.Judge(now, brake, stay, time.Time{})
			held = held || turn == PutOn
		}
		if held != want {
			t.Errorf("one every %s: held %v, want %v", step, held, want)
		}
	}
}

func TestTheBrakeIsTakenOff(t *testing.T) {
	put := func(t *testing.T) *Ledger {
		t.Helper()
		l, _ := withdraw(10, 9, 0)
		if _, turn := l.Judge(after(time.Second), brake, stay, time.Time{}); turn != PutOn {
			t.Fatalf("turn is %q", turn)
		}
		return l
	}
	t.Run("after its time", func(t *testing.T) {
		l := put(t)
		if withdrawn, _ := l.Judge(after(10*time.Minute), brake, stay, time.Time{}); len(withdrawn) > 0 {
			t.Errorf("%d withdrawn too early", len(withdrawn))
		}
		if withdrawn, turn := l.Judge(after(10*time.Minute+time.Second), brake, stay, time.Time{}); len(withdrawn) != 9 || turn != TakenOff || !l.HeldSince().IsZero() {
			t.Errorf("%d withdrawn, turn %q", len(withdrawn), turn)
		}
	})
	t.Run("by the operator's word, which is about this brake and no later one", func(t *testing.T) {
		l := put(t)
		if withdrawn, _ := l.Judge(after(2*time.Second), brake, stay, l.HeldSince().Add(-time.Second)); len(withdrawn) > 0 {
			t.Errorf("%d withdrawn at an old word", len(withdrawn))
		}
		if withdrawn, turn := l.Judge(after(2*time.Second), brake, stay, l.HeldSince()); len(withdrawn) != 9 || turn != TakenOff {
			t.Errorf("%d withdrawn, turn %q", len(withdrawn), turn)
		}
	})
	t.Run("when all come back", func(t *testing.T) {
		l := put(t)
		for _, key := range services(9) {
			l.Declare(key)
		}
		if withdrawn, turn := l.Judge(after(time.Minute), brake, stay, time.Time{}); len(withdrawn) > 0 || turn != NotNeeded || l.Withheld() > 0 {
			t.Errorf("%d withdrawn, turn %q", len(withdrawn), turn)
		}
	})
	t.Run("not by more withdrawals, which are held too", func(t *testing.T) {
		l := put(t)
		l.Withdraw(services(10)[9], after(time.Minute))
		if withdrawn, _ := l.Judge(after(2*time.Minute), brake, stay, time.Time{}); len(withdrawn) > 0 || l.Withheld() != 10 {
			t.Errorf("%d withdrawn, %d withheld", len(withdrawn), l.Withheld())
		}
	})
}

func TestWhatGoesWithItsNamespacePassesAtOnce(t *testing.T) {
	l, now := withdraw(10, 10, 0)
	withdrawn, turn := l.Judge(now, brake, func(key mcs.ServiceKey) bool { return key.Name < "s004" }, time.Time{})
	if len(withdrawn) != 4 || turn != "" {
		t.Errorf("%d withdrawn, turn %q", len(withdrawn), turn)
	}
	if withdrawn, turn := l.Judge(now.Add(time.Second), brake, stay, time.Time{}); len(withdrawn) != 0 || turn != PutOn {
		t.Errorf("of the six others %d withdrawn, turn %q", len(withdrawn), turn)
	}
}

func TestARestartComparesWithWhatStandsHere(t *testing.T) {
	all := services(10)
	restart := func(heldSince time.Time, declared int) *Ledger {
		l := NewLedger(heldSince)
		for _, key := range all[:declared] {
			l.Declare(key)
		}
		l.Remember(all, start)
		return l
	}
	if _, turn := restart(time.Time{}, 2).Judge(after(time.Second), brake, stay, time.Time{}); turn != PutOn {
		t.Errorf("8 of 10 that are gone after a restart: turn %q", turn)
	}
	if withdrawn, turn := restart(time.Time{}, 6).Judge(after(time.Second), brake, stay, time.Time{}); turn != "" || len(withdrawn) != 4 {
		t.Errorf("4 of 10 that are gone after a restart: turn %q, %d withdrawn", turn, len(withdrawn))
	}
	// A brake that was on stays on, and its time goes on.
	l := restart(after(-9*time.Minute), 6)
	if withdrawn, _ := l.Judge(after(time.Second), brake, stay, time.Time{}); len(withdrawn) > 0 || l.Withheld() != 4 {
		t.Errorf("%d withdrawn, %d withheld", len(withdrawn), l.Withheld())
	}
	if withdrawn, turn := l.Judge(after(time.Minute), brake, stay, time.Time{}); turn != TakenOff || len(withdrawn) != 4 {
		t.Errorf("turn %q, %d withdrawn", turn, len(withdrawn))
	}
}
