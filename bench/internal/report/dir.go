package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// Dir is the directory that -out names. It receives report.json, index.html and
// every chart in a file of its own. It is made and checked before the run.
type Dir struct {
	path string
	made bool // it was not there before
}

// OpenDir makes the directory if it does not exist, and checks that files can be
// written to it. The error says what cannot be done, in words that follow "-out: ".
func OpenDir(path string) (Dir, error) {
	d := Dir{path: path}
	switch info, err := os.Stat(path); {
	case os.IsNotExist(err):
		if err := os.MkdirAll(path, 0o777); err != nil {
			return d, fmt.Errorf("the directory cannot be made: %w", err)
		}
		d.made = true
	case err != nil:
		return d, fmt.Errorf("the directory cannot be used: %w", err)
	case !info.IsDir():
		return d, fmt.Errorf("%s is a file, not a directory", path)
	}
	if err := CheckWritable(d.file("report.json")); err != nil {
		return d, fmt.Errorf("the directory cannot be written to: %w", err)
	}
	return d, nil
}

// Abandon removes what OpenDir made.
func (d Dir) Abandon() {
	if d.made {
		_ = os.Remove(d.path)
	}
}

func (d Dir) file(name string) string { return filepath.Join(d.path, name) }

// Page is the file to look at.
func (d Dir) Page() string { return d.file("index.html") }

// Write fills the directory. After an error some of the files may be missing.
func (d Dir) Write(rep *Report) error {
	if err := WriteJSON(d.file("report.json"), rep); err != nil {
		return err
	}
	files, err := drawAll(rep.Rows)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := writePage(&page, rep, files); err != nil {
		return err
	}
	files = append(files, drawing{"index.html", page.Bytes()})
	for _, f := range files {
		if err := os.WriteFile(d.file(f.file), f.text, 0o666); err != nil {
			return fmt.Errorf("bench: -out: %w", err)
		}
	}
	return nil
}

// drawing is a chart that is drawn.
type drawing struct {
	file string
	text []byte
}

// drawAll draws all charts for which at least one row has a value.
func drawAll(rows []Row) ([]drawing, error) {
	var out []drawing
	add := func(file string, text []byte, err error) error {
		out = append(out, drawing{file, text})
		return err
	}
	for _, c := range chartsOf(rows) {
		text, err := c.draw(rows)
		if err := add(c.file, text, err); err != nil {
			return nil, err
		}
	}
	if sampled := sampledRows(rows); len(sampled) > 0 {
		text, err := drawServerCPU(sampled)
		if err := add(serverCPUFile, text, err); err != nil {
			return nil, err
		}
	}
	return out, nil
}
