package syncd

import (
	"context"
	"sync"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
	"github.com/k8s-mcs/k8s-mcs/syncd/policy"
)

// reasonBadAnnotation is the reason of the event about a ServiceExport with an
// annotation that cannot be read.
const reasonBadAnnotation = "BadAnnotation"

// mistakes remembers what was told of the annotations of ServiceExports.
type mistakes struct {
	mu   sync.Mutex // guards told
	told map[mcs.ServiceKey]string
}

// news reports whether a mistake in the export of a service was not told yet; ""
// is none.
func (m *mistakes) news(key mcs.ServiceKey, mistake string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.told[key]
	if mistake == before {
		return false
	}
	if mistake == "" {
		delete(m.told, key)
		return false
	}
	if m.told == nil {
		m.told = map[mcs.ServiceKey]string{}
	}
	m.told[key] = mistake
	return true
}

// tellMistakes says, once, which annotations of an own ServiceExport are wrong;
// the defaults count for them. tell makes the event.
func (s *syncer) tellMistakes(ctx context.Context, export *api.ServiceExport, tell func(context.Context, *api.ServiceExport, plan.Event)) {
	mistake := ""
	if err := policy.CheckExport(export.Annotations); err != nil {
		mistake = err.Error()
	}
	key := mcs.ServiceKey{Namespace: export.Namespace, Name: export.Name}
	if !s.mistakes.news(key, mistake) {
		return
	}
	s.log.Warn("cannot read annotations of ServiceExport", "service", key.String(), "err", mistake, "remedy", "correct them: until then the defaults count")
	tell(ctx, export, plan.Event{Warning: true, Reason: reasonBadAnnotation, Message: mistake + "; until it is corrected the default counts"})
}
