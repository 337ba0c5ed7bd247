package run

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/redistest"
)

// A row's process is the test's program: a row as it should be, or one of those
// that end badly.
func TestMain(m *testing.M) {
	switch os.Getenv(RowEnv) {
	case "":
	case "die":
		panic("this row dies")
	case "hang":
		_, _ = os.Stdout.WriteString(`{"phase":"hold"}` + "\n")
		time.Sleep(time.Hour)
	case "babble":
		_, _ = os.Stdout.WriteString("hello\n")
		os.Exit(0)
	default:
		os.Exit(RowMain(os.Stdin, os.Stdout))
	}
	// They wait far more than they work.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// output is written by a run and its rows' processes at once.
type output struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// ownServer starts a server that the test may do anything to: a process, or
// miniredis where there is none.
func ownServer(t *testing.T) *redistest.Server {
	t.Helper()
	srv, err := redistest.Start(t.Context(), redistest.Options{})
	if errors.Is(err, redistest.ErrNoServer) && !redistest.Required() {
		srv, err = redistest.StartMini(redistest.MiniOptions{})
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, srv.Stop()) })
	return srv
}

func miniServer(t *testing.T) *redistest.Server {
	t.Helper()
	srv, err := redistest.StartMini(redistest.MiniOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, srv.Stop()) })
	return srv
}

func dialed(t *testing.T, srv *redistest.Server) redis.Conn {
	t.Helper()
	conn, err := srv.Dial()
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// keys are the locks' names that are in Redis; the fencing-token counter may
// stay.
func keys(t *testing.T, srv *redistest.Server) []string {
	t.Helper()
	all, err := redis.Strings(dialed(t, srv).Do("KEYS", "*"))
	require.NoError(t, err)
	var names []string
	for _, name := range all {
		if !strings.HasPrefix(name, TokenCounter) {
			names = append(names, name)
		}
	}
	return names
}
