package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

var (
	reference = regexp.MustCompile(`(?i)(\b(href|src|srcset|action|data|poster)\s*=|url\(|@import|<link|<script|<iframe|<base)`)
	// sweepLine is a line with two points, in the colour of sweep in every chart.
	sweepLine = regexp.MustCompile(`<path d="M[^"L]+L[^"L]+" style="fill:none;stroke:#555555;stroke-width:1.8" />`)
	address   = regexp.MustCompile(`(?i)[a-z]+://[^"' <]*`)
)

// The real thing: what -out leaves behind.
func TestOutHasAPageThatNeedsNoOtherFile(t *testing.T) {
	t.Parallel()
	srv := fixture.RedisOrMini(t)
	dir := filepath.Join(t.TempDir(), "new", "report")
	r := runBench(context.Background(), t, "-redis", srv.URL(), "-locks", "50,100", "-drivers", "wheel-batch,sweep", "-lease", "2s", "-duration", "2s", "-out", dir)
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.stdout, filepath.Join(dir, "index.html"))

	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	require.NoError(t, err)
	var rep report.Report
	require.NoError(t, json.Unmarshal(text, &rep))
	require.Equal(t, r.report, rep)
	require.Contains(t, rep.Environment.Command, "go run ./bench -redis ")
	require.Contains(t, rep.Environment.Command, "-out "+dir)

	text, err = os.ReadFile(filepath.Join(dir, "index.html"))
	require.NoError(t, err)
	page := string(text)
	want := []string{"client-cpu", "redis-cpu", "memory", "goroutines", "late-p50", "late-p99", "script", "server-cpu"}
	if srv.Kind() == redistest.Mini {
		want = []string{"client-cpu", "memory", "goroutines", "late-p50", "late-p99"}
	}
	for _, name := range want {
		saved, err := os.ReadFile(filepath.Join(dir, name+".svg"))
		require.NoError(t, err)
		require.True(t, strings.Contains(page, string(saved)), "the page has %s in it", name)
		if name != "server-cpu" {
			require.Len(t, sweepLine.FindAll(saved, -1), 1, name)
		}
	}
	require.Empty(t, reference.FindAllString(page, -1))
	for _, found := range address.FindAllString(page, -1) {
		// The first is a name, not a place; the second stands in the command.
		if found != "http://www.w3.org/2000/svg" && !strings.HasPrefix(found, srv.URL()) {
			t.Errorf("the page refers to %s", found)
		}
	}
	// It is written so that it is XML, but for its first line.
	dec := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(page, "<!DOCTYPE html>")))
	for {
		_, err := dec.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
	}
}

func TestInterruptedRunWithOutLeavesAPageThatSaysSo(t *testing.T) {
	t.Parallel()
	srv := fixture.RedisOrMini(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		awaitKeys(t, srv, 100)
		cancel()
	}()
	r := runBench(ctx, t, "-redis", srv.URL(), "-locks", "100", "-drivers", "sweep", "-lease", "1h", "-duration", "10h", "-out", dir)
	require.Equal(t, exitInterrupted, r.code)
	page, err := os.ReadFile(filepath.Join(dir, "index.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), "The run was interrupted")
	require.Contains(t, string(page), "No row was measured")
}

func TestCommandLineHasNoPassword(t *testing.T) {
	for _, args := range [][]string{
		{"-redis", "redis://user:s3cret@h:1/2"},
		{"-redis=redis://:s3cret@h:1/2"},
		{"-redis", "redis://:s3%zzcret@h:1"},
		{"-cluster=redis://:s3cret@h,redis://:s3cret@i"},
		{"-cluster", "redis://:s3cret@h:1,rediss://a:s3cret@i:2"},
		{"-cluster", "h:1, redis://:s3cret@i:2"},
		{"-cluster=h:1,\t rediss://:s3cret@i:2"},
		{"-cluster", "h:1,\u00a0\u2003redis://:s3cret@i:2"}, // parse trims these spaces, too
		{"-cluster", "h:1,\v\u0085redis://:s3cret@i:2"},
		{"-cluster", "redis://:s3cret@h:1/, redis://:s3cret@i:2/"},
		{"-cluster", " redis://:s3cret@h:1/ , i:2 , redis://:s3cret@j:3"},
	} {
		require.NotContains(t, commandLine(args), "s3", "%v", args)
	}
	require.Equal(t, "go run ./bench -redis redis://user:xxxxx@h:1/2", commandLine([]string{"-redis", "redis://user:s3cret@h:1/2"}))
	require.Equal(t, "go run ./bench -cluster 'h:1, redis://:xxxxx@i:2'", commandLine([]string{"-cluster", "h:1, redis://:s3cret@i:2"}))
	require.Equal(t, `go run ./bench -locks '5, 10' -out 'it'\''s'`, commandLine([]string{"-locks", "5, 10", "-out", "it's"}))
}
