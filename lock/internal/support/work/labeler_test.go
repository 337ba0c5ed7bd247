package work_test

import (
	"bytes"
	"context"
	"runtime/pprof"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/support/work"
)

// profile returns the profile of all goroutines, as text.
func profile(t *testing.T) string {
	var b bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&b, 1))
	return b.String()
}

func TestAProfileShowsRolesAndNoLabelsOfTheCaller(t *testing.T) {
	var c work.Labeler
	var wg, started sync.WaitGroup
	end := make(chan struct{})
	run := func() {
		started.Done()
		<-end
	}
	pprof.Do(t.Context(), pprof.Labels("request", "first"), func(context.Context) {
		started.Add(4)
		wg.Go(c.Label("reader", run))
		wg.Go(c.Label("writer", run))
		wg.Go(c.Label("reader", run))
		wg.Go((*work.Labeler)(nil).Label("dial", run))
	})
	started.Wait()
	p := profile(t)
	close(end)
	wg.Wait()
	for _, labels := range []string{
		`{"wheellock":"reader", "wheellock_number":"1"}`, `{"wheellock":"reader", "wheellock_number":"2"}`,
		`{"wheellock":"writer", "wheellock_number":"1"}`, `{"wheellock":"dial"}`,
	} {
		require.Contains(t, p, labels)
	}
	require.NotContains(t, p, "request", "what the caller does is over")
}
