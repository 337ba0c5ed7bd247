//go:build unix

package main

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
)

// TestTheTestsSayAtOnceThatThereIsNoShell: they would wait for minutes for what it writes.
func TestTheTestsSayAtOnceThatThereIsNoShell(t *testing.T) {
	t.Parallel()
	for _, test := range []string{"TestACommandOfARedisThatHangsIsEnded", "TestAStoppedCommandKeepsItsLock"} {
		redis, err := exec.LookPath("redis-server")
		if err != nil {
			t.Skip("there is no redis-server")
		}
		dir := t.TempDir()
		require.NoError(t, exec.Command("ln", "-s", redis, dir+"/redis-server").Run())
		w := exec.CommandContext(bounded.Context(t), executable(t), "-test.run", "^"+test+"$", "-test.timeout", "20s")
		w.Env = append(w.Environ(), "PATH="+dir)
		said, err := w.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(said), "this test needs sh in PATH")
	}
}
