package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run"
)

// shown returns the lines that a terminal shows in the end, after written was written to it.
func shown(written string) []string {
	var lines []string
	for line := range strings.SplitSeq(written, "\n") {
		var cells []byte
		at := 0
		for _, c := range []byte(line) {
			if c == '\r' {
				at = 0
				continue
			}
			if at == len(cells) {
				cells = append(cells, ' ')
			}
			cells[at] = c
			at++
		}
		lines = append(lines, strings.TrimRight(string(cells), " "))
	}
	return lines
}

func TestScreenKeepsOneLineBelowWhatIsWritten(t *testing.T) {
	var b bytes.Buffer
	s := &screen{out: &b, width: func() int { return 20 }}
	s.draw("a line that is longer than the terminal")
	require.Equal(t, []string{"a line that is long"}, shown(b.String()), "the last column is free")
	s.draw("short")
	require.Equal(t, []string{"short"}, shown(b.String()))
	_, err := s.Write([]byte("fault\n"))
	require.NoError(t, err)
	require.Equal(t, []string{"fault", ""}, shown(b.String()))
	s.draw("again")
	require.Equal(t, []string{"fault", "again"}, shown(b.String()))
	s.draw("")
	require.Equal(t, []string{"fault", ""}, shown(b.String()))
}

func TestProgressOnAScreenIsOneLineThatGoesInTheEnd(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&screen{out: &b, width: func() int { return 120 }}, run.Plan{Duration: 10 * time.Second})
	p.Start([]int{1000, 1000})
	now := time.Now()
	r := report.Row{Driver: "sweep", Locks: 1000}
	p.Begin(r, now)
	require.Equal(t, []string{"bench: row 1 of 2: sweep, 1,000 locks: start [--------------------] 21s left"}, shown(b.String()))
	p.Step("acquire", 500, now)
	require.Contains(t, shown(b.String())[0], "acquire 500 of 1,000")
	p.Step("hold", 4, now.Add(4*time.Second))
	require.Equal(t, []string{"bench: row 1 of 2: sweep, 1,000 locks: hold 4s of 10s [###-----------------] 17s left"}, shown(b.String()))
	p.End(now.Add(15 * time.Second))
	require.Equal(t, []string{""}, shown(b.String()))
	p.Begin(r, now.Add(15*time.Second))
	require.Equal(t, []string{"bench: row 2 of 2: sweep, 1,000 locks: start [##########----------] 15s left"}, shown(b.String()),
		"it has learned what a row takes here")
}

func TestProgressElsewhereIsALineARow(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, run.Plan{Duration: time.Hour})
	p.Start([]int{5})
	now := time.Now()
	p.Begin(report.Row{Driver: "wheel", Locks: 5}, now)
	for s := range 25 { // more is said of rows that take long
		p.Step("hold", s, now.Add(time.Duration(s)*time.Second))
	}
	p.End(now.Add(25 * time.Second))
	require.Equal(t, "bench: row 1 of 1: wheel, 5 locks\nbench:   wheel, 5 locks: hold 10s of 1h0m0s\nbench:   wheel, 5 locks: hold 20s of 1h0m0s\n", b.String())
}
