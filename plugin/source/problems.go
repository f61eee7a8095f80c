package source

import (
	"sync"
	"time"
)

// problemLog writes warnings about objects, which others write: it says each
// thing once in a while and never floods the log. It is safe for concurrent use.
type problemLog struct {
	log Logger
	now func() time.Time

	mu      sync.Mutex
	said    map[string]time.Time
	window  time.Time // start of the current minute
	written int       // lines in it
	dropped int       // lines left out since the last one
}

const (
	linesPerMinute = 6
	sayAgainAfter  = time.Hour
	maxRemembered  = 1000
)

func newProblemLog(log Logger, now func() time.Time) *problemLog {
	return &problemLog{log: log, now: now, said: map[string]time.Time{}}
}

func (p *problemLog) warn(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if last, ok := p.said[text]; ok && now.Sub(last) < sayAgainAfter {
		return
	}
	if now.Sub(p.window) >= time.Minute {
		p.window, p.written = now, 0
	}
	if p.written == linesPerMinute {
		p.dropped++
		return
	}
	if len(p.said) >= maxRemembered {
		clear(p.said)
	}
	p.said[text] = now
	p.written++
	if p.dropped > 0 {
		p.log.Warningf("%s (%d other warnings about objects were not written)", text, p.dropped)
		p.dropped = 0
		return
	}
	p.log.Warningf("%s", text)
}
