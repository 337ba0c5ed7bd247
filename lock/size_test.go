package lock

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A hold is of a size that Go's heap has, so that nothing of it is wasted.
func TestHoldFitsItsSizeClass(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) == 8 {
		require.LessOrEqual(t, unsafe.Sizeof(hold{}), uintptr(208))
	}
}
