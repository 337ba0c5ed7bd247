package run

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/report"
)

func wrote(pieces ...string) string {
	o := newRowOutput(report.Row{Driver: "library", Locks: 1000})
	for _, piece := range pieces {
		n, err := o.Write([]byte(piece))
		if n != len(piece) || err != nil {
			return "Write failed"
		}
	}
	var b strings.Builder
	o.writeTo(&b)
	return b.String()
}

func TestLogLinesThatAreAlikeAreShownOnceAndCounted(t *testing.T) {
	var log []string
	for i := range 1200 {
		log = append(log, fmt.Sprintf("2026/11/25 13:00:%02d WARN lock: lost name=x:%d\n", i%60, i))
	}
	log = append(log, "2026/11/25 13:01:00 INFO lock: conn", "ected\n")
	require.Equal(t, "bench: library, 1,000 locks: the row's process wrote 1,201 lines:\n"+
		"bench:   1,200 like this: WARN lock: lost name=x:0\n"+
		"bench:   INFO lock: connected\n", wrote(log...))
	require.Empty(t, wrote(), "a row that wrote nothing is not named")
}

func TestLogOfARowIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "2026/11/25 13:00:00 WARN %s\n", strings.Repeat("x", i+1))
	}
	b.WriteString("panic: no reason\n")
	for range 100 {
		b.WriteString(strings.Repeat("goroutine", 1000) + "\n")
	}
	got := wrote(b.String(), "the \x1b[2J end")
	require.Equal(t, 1+maxKinds+maxOther+1, strings.Count(got, "\n"))
	require.Contains(t, got, "\nbench:   panic: no reason\n", "the log does not hide it")
	require.Contains(t, got, "and 154 lines that are not shown")
	require.Less(t, len(got), (maxKinds+maxOther)*(maxLine+100))
	require.Contains(t, wrote("the \x1b[2J end"), "bench:   the ?[2J end\n", "a terminal does not obey it")
}
