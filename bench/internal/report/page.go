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
	Compared        pageComparison
	Answer, Warning string
	Where           []string
	Lease           time.Duration
	Lines           bool // the charts have lines; otherwise bars
	Faults, Remarks []string
	Drivers         []pageDriver
	Charts          []pageChart
	Head            [][2]string
	Rows            []pageRow
}

// pageComparison is the comparison as cards of bars, one card for each measure.
type pageComparison struct {
	Head  string
	Cards []pageCard
}

type pageCard struct {
	Name string
	Bars []pageBar
}

type pageBar struct {
	Way, Note, Value, Change string
	Style                    template.CSS
}

func pageComparisonOf(rep *Report) pageComparison {
	c, ok := rep.compare()
	if !ok {
		return pageComparison{}
	}
	out := pageComparison{Head: c.head}
	for _, m := range c.measures {
		card := pageCard{Name: m.name}
		for i, x := range m.cells {
			w := c.contenders[i]
			style := template.CSS(fmt.Sprintf("background:%s;width:%.1f%%", colour(w.driver), x.part*100))
			card.Bars = append(card.Bars, pageBar{w.name, w.note(), x.value, x.change, style})
		}
		out.Cards = append(out.Cards, card)
	}
	return out
}

type pageDriver struct {
	Name   string
	Colour template.CSS
	About  string
}

// colour is a driver's, as CSS.
func colour(driver string) template.CSS {
	c := colorOf(driver)
	return template.CSS(fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B))
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
		Env: rep.Environment, Compared: pageComparisonOf(rep), Answer: rep.Verdict(), Warning: rep.Environment.warning(), Where: rep.Environment.lines(), Lease: time.Duration(rep.Environment.LeaseMs) * time.Millisecond,
		Faults: faultsOf(rep.Rows), Remarks: Remarks(rep.Rows),
	}
	for _, c := range chartsOf(rep.Rows) {
		_, _, bars := c.barsOf(rep.Rows)
		p.Lines = p.Lines || !bars
	}
	for _, d := range driversOf(rep.Rows) {
		p.Drivers = append(p.Drivers, pageDriver{d, colour(d), Describe(d)})
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
		if !r.IsSound() {
			classes = append(classes, "bad")
		}
		row := pageRow{Class: strings.Join(classes, " "), Colour: colour(r.Driver)}
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
