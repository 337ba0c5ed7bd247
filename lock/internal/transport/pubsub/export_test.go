package pubsub

// Names returns how many names f knows.
func (f *Follower) Names() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.names)
}

// WakeOf returns what a message calls that comes for a name.
func (f *Follower) WakeOf(name string) func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.names[name].wakeLocked
}

// Idle returns how many channels are in the list of those that nobody listens to.
func (s *Subscriber) Idle() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.idle)
}
