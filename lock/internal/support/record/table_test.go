package record_test

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/support/record"
)

var update = flag.Bool("update-records", false, "write the list of records in lock/SERVICE.md anew")

func TestEachRowIsWhole(t *testing.T) {
	texts := map[string]bool{}
	for _, r := range record.All() {
		row := r.Row()
		text, ok := strings.CutPrefix(row.Text, "lock: ")
		require.True(t, ok, "row %d: %q", r, row.Text)
		require.False(t, texts[text], text)
		texts[text] = true
		for _, prose := range []string{text, row.Advice, row.When} {
			require.NotContains(t, prose, ": ", "a colon joins no sentences")
			require.NotContains(t, prose, ";")
			require.NotRegexp(t, `\.$|\||  `, prose)
		}
		if row.Level >= slog.LevelWarn {
			require.NotEqual(t, row.Advice == "", !slices.Contains(row.Attrs, "advice"), "%s: it says what to do, once", text)
		} else {
			require.Empty(t, row.Advice, "%s: there is nothing to do", text)
		}
		require.NotContains(t, row.Attrs, record.Suppressed)
		if row.After != 0 {
			require.Zero(t, row.Most+len(row.Each), text)
			require.Positive(t, row.After.Row().Most, text)
			continue
		}
		require.Positive(t, row.Most, text)
		require.GreaterOrEqual(t, row.Every, time.Minute, text)
		require.LessOrEqual(t, row.Most, 10*int(row.Every/time.Minute), text)
		for _, name := range row.Each {
			require.Contains(t, row.Attrs, name, text)
		}
	}
}

// The generated part of the document is between these lines.
const (
	page  = "../../../SERVICE.md"
	begin = "<!-- Made from lock/internal/support/record: go test ./lock/internal/support/record -update-records -->\n\n"
	end   = "\n<!-- End -->\n"
)

func TestTheDocumentHasTheTable(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	list, after, found := strings.Cut(rest, end)
	require.True(t, found)
	if *update {
		list = document()
		require.NoError(t, os.WriteFile(page, []byte(before+begin+list+end+after), 0o644))
	}
	require.Equal(t, document(), list, "read the texts; if they are meant: go test ./lock/internal/support/record -update-records")
}

// document is the table for people.
func document() string {
	var b strings.Builder
	b.WriteString("| record, its attributes | level | at most | what to do |\n|---|---|---|---|\n")
	for _, r := range record.All() {
		row := r.Row()
		fmt.Fprintf(&b, "| **%s**", strings.TrimPrefix(row.Text, "lock: "))
		if row.When != "" {
			fmt.Fprintf(&b, " (%s)", row.When)
		}
		advice := row.Advice
		switch {
		case slices.Contains(row.Attrs, "advice"):
			advice = "see `advice`"
		case advice == "":
			advice = "nothing"
		}
		fmt.Fprintf(&b, ". `%s` | %s | %s | %s |\n", strings.Join(row.Attrs, "`, `"), strings.ToLower(row.Level.String()), bound(row), advice)
	}
	return b.String()
}

// bound is how often a record comes at most.
func bound(row record.Row) string {
	if row.After != 0 {
		text := strings.TrimPrefix(row.After.Row().Text, "lock: ")
		return "once after each *" + text[:strings.IndexAny(text, ".,")] + "*"
	}
	every := map[time.Duration]string{time.Minute: "a minute", 10 * time.Minute: "in 10 minutes", 24 * time.Hour: "a day"}[row.Every]
	if every == "" {
		every = "in " + row.Every.String()
	}
	text := "once " + every
	if row.Most > 1 {
		text = fmt.Sprintf("%d times %s", row.Most, every)
	}
	switch {
	case slices.Equal(row.Each, []string{"server"}), slices.Equal(row.Each, []string{"old"}):
		text += " per server"
	case len(row.Each) > 0:
		text += " per " + strings.Join(row.Each, " and ")
	}
	return text
}
