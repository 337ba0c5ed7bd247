package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// screen is a terminal with one line at its end that is drawn over and over.
// Other output appears above this line. It is safe for concurrent use.
type screen struct {
	out   io.Writer  // immutable
	width func() int // immutable; columns

	mu    sync.Mutex // guards what follows
	drawn int        // columns of the drawn line; 0 if there is none
}

// onTerminal returns w, as a screen if it is a terminal.
func onTerminal(w io.Writer) io.Writer {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return w
	}
	return &screen{out: f, width: func() int {
		columns, _, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 80
		}
		return columns
	}}
}

// Write removes the drawn line and writes b.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawLocked("")
	return s.out.Write(b)
}

// draw replaces the drawn line by line, which is ASCII. An empty line only removes
// the drawn line.
func (s *screen) draw(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawLocked(line)
}

// drawLocked overwrites with blanks, because not every terminal knows escape
// sequences.
func (s *screen) drawLocked(line string) {
	if line == "" && s.drawn == 0 {
		return
	}
	// The last column stays free: some terminals go to the next line there.
	if most := max(s.width()-1, 0); len(line) > most {
		line = line[:most]
	}
	blanks := strings.Repeat(" ", max(s.drawn-len(line), 0))
	fmt.Fprintf(s.out, "\r%s%s\r%s", line, blanks, line)
	s.drawn = len(line)
}
