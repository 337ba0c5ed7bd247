package main

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
)

// TestACommandDiesWithUs: without wheellock, no process would end the command when the lock is lost.
func TestACommandDiesWithUs(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	file := filepath.Join(t.TempDir(), "beats")
	w := wheellock(t, s.URL(), "run", "n", "--", executable(t), "beat", file, "ignore")
	w.Stdout = nil
	out, err := w.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, w.Start())
	awaitBeats(t, file)
	require.NoError(t, w.Process.Kill())
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, out) // returns when the last process that could write to the pipe has ended
		ended <- err
	}()
	require.NoError(t, bounded.Receive(t, ended))
	require.Equal(t, -1, w.status(t))
}
