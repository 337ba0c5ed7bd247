package pubsub

// Names returns how many names f knows.
func (f *Follower) Names() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.names)
}

// WakeOf returns the function that each message for a name calls.
func (f *Follower) WakeOf(name string) func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.names[name].wakeLocked
}

// Size returns how many channels s knows, and how many are in its lists.
func (s *Subscriber) Size() (channels, listed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.topics), len(s.pending) + len(s.idle)
}

// Idle returns how many channels are in the list of channels without listeners.
func (s *Subscriber) Idle() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.idle)
}

// Looks returns how many topics were looked at for answers and commands.
func (s *Subscriber) Looks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks
}
