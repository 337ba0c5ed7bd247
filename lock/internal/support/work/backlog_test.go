package work_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/lock/internal/support/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTheQueueIsBoundedAndInOrder: pieces wait in the queue while the work on one has not ended.
func TestTheQueueIsBoundedAndInOrder(t *testing.T) {
	var b work.Backlog[int]
	var did []int
	began, end := make(chan struct{}, 10), make(chan struct{})
	b.Init(nil, "work", func(x int) {
		began <- struct{}{}
		<-end
		did = append(did, x)
	})
	require.False(t, b.Busy())
	require.True(t, b.AddUpTo(3, 0))
	<-began // it is no longer in the queue
	for x := 1; x <= 3; x++ {
		require.True(t, b.AddUpTo(3, x))
	}
	require.False(t, b.AddUpTo(3, 4))
	require.True(t, b.Busy())
	close(end)
	b.Drain()
	require.False(t, b.Busy())
	require.Equal(t, []int{0, 1, 2, 3}, did)
}
