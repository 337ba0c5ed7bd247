package faults

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func lastMark(t *testing.T, out *bytes.Buffer) stamp {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var e event
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &e))
	require.Equal(t, opMark, e.Op)
	return e.At
}

// TestAMarkSaysNoMoreThanWhatIsWritten: an event whose stamp was taken and which is
// written later holds the mark back, and one that is dropped does not.
func TestAMarkSaysNoMoreThanWhatIsWritten(t *testing.T) {
	var out bytes.Buffer
	r := &recorder{to: &out}
	first, second := r.stamp(), r.stamp()
	later := second + 1000
	r.mark(later)
	require.Less(t, lastMark(t, &out), first)
	r.write(event{At: first, Op: opFreed})
	r.mark(later)
	require.Less(t, lastMark(t, &out), second)
	r.drop(second)
	r.mark(later)
	require.Equal(t, later, lastMark(t, &out))
}

func TestARestWaitsForTheTurnsAndLetsNoneBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaks()
		rest, ok := b.turn(t.Context())
		require.True(t, ok)
		rested, next := false, false
		go func() { b.rest(); rested = true }()
		<-rest
		go func() { _, next = b.turn(t.Context()) }()
		synctest.Wait()
		require.False(t, rested, "a turn is under way")
		require.False(t, next, "none begins")
		b.done()
		synctest.Wait()
		require.True(t, rested)
		require.False(t, next)
		b.resume()
		synctest.Wait()
		require.True(t, next)
	})
}

func TestTheHistoryKeepsItsLastEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	f, err := newTail(path, 10)
	require.NoError(t, err)
	for _, line := range []string{"1234\n", "5678\n", "abcd\n", "efgh\n", "ijkl\n"} {
		_, err := f.Write([]byte(line))
		require.NoError(t, err)
	}
	require.NoError(t, f.close())
	newer, err := os.ReadFile(path)
	require.NoError(t, err)
	older, err := os.ReadFile(f.older())
	require.NoError(t, err)
	require.Equal(t, "abcd\nefgh\nijkl\n", string(older)+string(newer))
}
