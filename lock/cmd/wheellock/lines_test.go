package main

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
)

// pager is a writer that takes a text only when it gets a token.
type pager struct {
	fixture.Log
	tokens chan struct{}
}

func (p *pager) Write(text []byte) (int, error) {
	<-p.tokens
	return p.Log.Write(text)
}

func TestLinesThatNobodyReadsAreDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &pager{tokens: make(chan struct{})}
		var l lines
		l.init(to)
		l.add("0\n")
		synctest.Wait() // the writer has it
		for i := 1; i <= maxLines+7; i++ {
			l.add(fmt.Sprintln(i))
		}
		began := time.Now()
		l.flush(flushTimeout / 4)
		require.Equal(t, flushTimeout/4, time.Since(began))
		l.flush(flushTimeout)
		l.flush(flushTimeout)
		require.Equal(t, flushTimeout, time.Since(began), "in all")
		require.Empty(t, to.String())

		close(to.tokens)
		synctest.Wait()
		l.add("next\n")
		l.add("last\n")
		synctest.Wait()
		var want strings.Builder // the lines that are written keep their order
		for i := range maxLines + 1 {
			fmt.Fprintln(&want, i)
		}
		require.Equal(t, want.String()+"wheellock: 7 lines are missing here, because nobody read them\nnext\nlast\n", to.String())
	})
}

// TestLinesThatAreDroppedLastAreCountedToo: no other line comes after them.
func TestLinesThatAreDroppedLastAreCountedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &pager{tokens: make(chan struct{})}
		var l lines
		l.init(to)
		l.add("0\n")
		synctest.Wait() // the writer has it
		for range maxLines + 10 {
			l.add("x\n")
		}
		time.AfterFunc(flushTimeout/2, func() { close(to.tokens) })
		l.flush(flushTimeout)
		require.True(t, strings.HasSuffix(to.String(), "x\nwheellock: 10 lines are missing here, because nobody read them\n"))
		written := to.String()
		l.flush(flushTimeout)
		require.Equal(t, written, to.String(), "they are counted once")
	})
}

// TestALineIsWrittenBeforeTheProcessEnds, although its reader is slow.
func TestALineIsWrittenBeforeTheProcessEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &pager{tokens: make(chan struct{})}
		var l lines
		l.init(to)
		l.add("last\n")
		time.AfterFunc(flushTimeout/2, func() { close(to.tokens) })
		began := time.Now()
		l.flush(flushTimeout)
		require.Equal(t, "last\n", to.String())
		require.Equal(t, flushTimeout/2, time.Since(began), "it waits no longer than it must")
	})
}
