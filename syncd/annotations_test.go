package syncd

import (
	"testing"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

func TestAMistakeIsToldOnceUntilItChanges(t *testing.T) {
	var m mistakes
	key := mcs.ServiceKey{Namespace: "shop", Name: "web"}
	for i, step := range []struct {
		mistake string
		told    bool
	}{{"", false}, {"a", true}, {"a", false}, {"b", true}, {"", false}, {"b", true}} {
		if got := m.news(key, step.mistake); got != step.told {
			t.Errorf("step %d: told %t", i, got)
		}
	}
	if !m.news(mcs.ServiceKey{Namespace: "shop", Name: "other"}, "b") {
		t.Error("a mistake of another object is not told")
	}
}
