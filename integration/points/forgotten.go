package points

import "unsafe"

// OnForget is in the place of runtime.AddCleanup: f is called by Forget, and not by the collector,
// which decides by itself when it looks.
func OnForget[T, S any](x *T, f func(S), of S) {
	if s := current.Load(); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forget[unsafe.Pointer(x)] = func() { f(of) }
	}
}

// Forget does what the garbage collector does when x is unreachable. The caller must have the only
// reference to x and must not use it any more.
func Forget[T any](x *T) {
	s := current.Load()
	if s == nil {
		return
	}
	s.mu.Lock()
	f := s.forget[unsafe.Pointer(x)]
	delete(s.forget, unsafe.Pointer(x))
	s.mu.Unlock()
	if f != nil {
		f()
	}
}
