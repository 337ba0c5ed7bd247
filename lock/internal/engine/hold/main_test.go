package hold_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/engine/hold"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// in converts the Held of a user to the Held of this package.
func in(x *lock.Held) *hold.Held { return (*hold.Held)(x) }
