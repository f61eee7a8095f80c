package zone

// Kind tells what the import at "S.N" is; exists is false when no such name
// does.
func (z *Zone) Kind(service string) (headless, exists bool) {
	s := z.service(service)
	if s == nil {
		return false, false
	}
	return s.headless, true
}
