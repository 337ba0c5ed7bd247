package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// outDir is the directory of -out: report.json, index.html, and a chart each in
// a file of its own. It is made and tried before the run.
type outDir struct {
	path string
	made bool // it was not there before
}

func openOut(path string) (outDir, error) {
	d := outDir{path: path}
	switch info, err := os.Stat(path); {
	case os.IsNotExist(err):
		if err := os.MkdirAll(path, 0o777); err != nil {
			return d, usagef("-out: the directory cannot be made: %v", err)
		}
		d.made = true
	case err != nil:
		return d, usagef("-out: the directory cannot be used: %v", err)
	case !info.IsDir():
		return d, usagef("-out: %s is a file, not a directory", path)
	}
	if err := checkWritable(d.file("report.json")); err != nil {
		return d, usagef("-out: the directory cannot be written to: %v", err)
	}
	return d, nil
}

// abandon removes what openOut made.
func (d outDir) abandon() {
	if d.made {
		_ = os.Remove(d.path)
	}
}

func (d outDir) file(name string) string { return filepath.Join(d.path, name) }

// page is the file to look at.
func (d outDir) page() string { return d.file("index.html") }

// write fills the directory.
func (d outDir) write(rep *report) error {
	if err := writeJSON(d.file("report.json"), rep); err != nil {
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

// drawAll draws all charts of which the rows say anything.
func drawAll(rows []row) ([]drawing, error) {
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
