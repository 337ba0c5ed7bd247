package integration_test

import (
	"os"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/faults"
)

// soakEnv is how long to run with very many locks under faults: a duration.
// go test needs a longer -timeout then.
const soakEnv = "WHEELLOCK_SOAK"

func TestSoak(t *testing.T) {
	text := os.Getenv(soakEnv)
	if text == "" {
		t.Skip(soakEnv + " is not set: 1h runs for an hour")
	}
	length, err := time.ParseDuration(text)
	require.NoError(t, err, soakEnv)
	s := processes(t)
	const locks, lease = 100_000, 12 * time.Second
	// A busy machine that loses very many locks at once needs more for a while, of
	// which most is garbage.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(400 << 20))
	r, err := faults.Run(t.Context(), faults.Soak(length, locks), faults.Options{
		Start: on(s), Register: own(t, s), Seed: seed(t), Lease: lease,
	})
	require.NoError(t, err)
	t.Logf("%s=%d\n%s", seedEnv, r.Seed, faults.Table([]faults.Result{r}))
	t.Logf("checked in %d pieces, %v after the end; memory of the parent: %d MiB at most", r.Pieces, r.After, r.Memory>>20)
	require.Less(t, r.After, time.Minute, "so much of the history was left to be checked")
	require.Less(t, r.Memory>>20, uint64(500), "the parent keeps what it has checked")
	held := 0
	for _, p := range r.Processes {
		held += p.Leases
		t.Logf("%d locks: heap %d MiB, at the start %d MiB; %d goroutines; renewals are sent %v after they are due (p99)",
			p.Leases, p.Heap>>20, p.HeapAtStart>>20, p.Goroutines, p.Lag)
		require.Less(t, p.Heap, p.HeapAtStart*3/2+16<<20, "the heap grows")
		require.Less(t, p.Lag, lease/6, "renewals fall behind")
	}
	require.Greater(t, held, locks*9/10)
	require.Empty(t, r.Fault())
}
