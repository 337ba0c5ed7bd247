package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

// page is what page.html shows.
type page struct {
	Env             Environment
	Lease, Duration time.Duration
	Faults, Remarks []string
	Charts          []pageChart
	Head            [][2]string
	Rows            []pageRow
}

type pageChart struct {
	Name string
	SVG  template.HTML
}

type pageRow struct {
	Class  string
	Colour template.CSS
	Cells  []string
}

// writePage writes the page of a report: one file that needs no other.
func writePage(w io.Writer, rep *Report, charts []drawing) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return fmt.Errorf("bench: page: %w", err)
	}
	p := page{
		Env:   rep.Environment,
		Lease: time.Duration(rep.Environment.LeaseMs) * time.Millisecond, Duration: time.Duration(rep.Environment.DurationMs) * time.Millisecond,
		Faults: faultsOf(rep.Rows), Remarks: Remarks(rep.Rows),
	}
	for _, c := range charts {
		p.Charts = append(p.Charts, pageChart{strings.TrimSuffix(c.file, ".svg"), template.HTML(c.text)})
	}
	cols := append(columns(), scriptColumns()...)
	for _, c := range cols {
		p.Head = append(p.Head, c.head)
	}
	for i, r := range rep.Rows {
		var classes []string
		if i > 0 && rep.Rows[i-1].Locks != r.Locks {
			classes = append(classes, "first")
		}
		if !r.Sound() {
			classes = append(classes, "bad")
		}
		c := colorOf(r.Driver)
		row := pageRow{Class: strings.Join(classes, " "), Colour: template.CSS(fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B))}
		for _, col := range cols {
			row.Cells = append(row.Cells, col.cell(r))
		}
		p.Rows = append(p.Rows, row)
	}
	if err := t.Execute(w, p); err != nil {
		return fmt.Errorf("bench: page: %w", err)
	}
	return nil
}

// faultsOf says which rows are not as they must be, and why.
func faultsOf(rows []Row) []string {
	var out []string
	for _, r := range rows {
		for _, fault := range r.Faults {
			out = append(out, fmt.Sprintf("%v: %s", r, fault))
		}
		if losses := r.Losses(); losses != "" {
			out = append(out, losses)
		}
	}
	return out
}
