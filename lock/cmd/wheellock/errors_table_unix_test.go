//go:build unix

package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/errortable"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestTheTextsOfErrorsAreTheAgreedOnes: testdata/errors.txt has the texts with which the
// command fails.
func TestTheTextsOfErrorsAreTheAgreedOnes(t *testing.T) {
	s := fixture.Server(t)
	fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{Lease: time.Minute, Label: "host-7"}).Mutex("held").Lock)
	fixture.Do(t, s, "SET", "theirs", "x", "PX", 29_500)
	fixture.Do(t, s, "HSET", "hash", "name", "bob")
	var rows []errortable.Row
	call := func(url, args string, env ...string) {
		w := wheellock(t, url, strings.Fields(args)...)
		w.Env = append(w.Env, env...)
		status := w.run(t)
		require.NotZero(t, status, args)
		what := strings.Join(append(env, "wheellock "+args), " ")
		rows = append(rows, errortable.Row{What: what, Err: errors.New(strings.TrimSpace(w.stderr.String()))})
	}
	for _, args := range []string{
		"start", "run", "run n", "run n true", "run n m -- true", "run -what n -- true", "run -wait soon n -- true", "run -lease 999ms n -- true",
		"run -lease 1s -grace 501ms n -- true", "run -grace -5s n -- true", "run -keep 1000h n -- true", "run -redis http://h n -- true", "run -redis= n -- true", "inspect -prefix a} n",
		"run -cluster h n -- true", "inspect", "inspect redis://h", "unlock a", "check a", "list a", "list -limit -1",
		"run held -- true", "run -wait 500ms held -- true", "run theirs -- true", "unlock -force theirs", "run hash -- true", "run n -- no-such-command", "run n -- /", "run wheellock_token -- true",
	} {
		call(s.URL(), args)
	}
	call(s.URL(), "run held -- true", "WHEELLOCK_NAME=held")
	call("redis://127.0.0.1:1", "run n -- true")
	call("redis://127.0.0.1:1", "inspect n")
	call("", "run n -- true", "WHEELLOCK_REDIS=")
	call("", "run n -- true", "WHEELLOCK_CLUSTER=h")
	call(s.URL(), "run n -- "+script(t, "#!/no/such/interpreter\n", 0o755))
	call(s.URL(), "run n -- "+script(t, "echo\n", 0o755))
	require.NoError(t, s.Pause())
	call(s.URL(), "inspect n")
	require.NoError(t, s.Resume())
	for i := range rows {
		rows[i].What = file.ReplaceAllString(rows[i].What, "SCRIPT")
		rows[i].Err = errors.New(file.ReplaceAllString(rows[i].Err.Error(), "SCRIPT"))
	}
	errortable.Compare(t, "testdata/errors.txt", rows, []string{"."}, map[string][]string{
		"other tests have it": {
			"the name of the lock is a URL of Redis: write -redis before the URL, and give the name",
			"version: it takes no arguments",
			"cannot write to the standard output: %v",
			"-cacert, -cert and -key are for connections with TLS: write -redis rediss://, rediss-sentinel:// or rediss-cluster://",
			"-cert and -key belong together: give both files",
			"-cacert: the file has no certificate in PEM format",
			"-cert, -key: %s: %v",
			"-cert, -key: the files are no certificate and its key in PEM format: %v",
			"%s: %v came before the command was started, so the command was not run",
			"%s: the command runs as another user (setuid), so it could not be ended when the lock is lost: start it with sudo wheellock run",
		},
	})
}

// file matches the path of a script that this test has written.
var file = regexp.MustCompile(`/\S+/script`)
