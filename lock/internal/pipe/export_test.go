package pipe

import "github.com/wheellock/wheellock/lock/script"

// Publishes is publishes.
func Publishes(s *script.Script) bool { return publishes(s) }
