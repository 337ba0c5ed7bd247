package report

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// chart shows a value against the number of locks, with a line for each driver. With
// one number of locks it shows bars.
type chart struct {
	file  string
	title string
	unit  string // empty for a number of what the title names
	value func(Row) Number
	floor float64 // smaller values are drawn at floor, because a logarithmic axis has no 0; if floor is 0, the axis is linear
}

// chartsOf are the charts for which at least one row has a value.
func chartsOf(rows []Row) []chart {
	known := func(value func(Row) Number) bool {
		return slices.ContainsFunc(rows, func(r Row) bool { return value(r).Known })
	}
	memory := chart{
		"memory.svg", "Resident memory of the client, at most", "MiB",
		func(r Row) Number { return r.RSS.mebibytes() }, 0,
	}
	if !known(memory.value) { // not on Linux
		memory.title = "Live heap of the client"
		memory.value = func(r Row) Number { return r.Heap.mebibytes() }
	}
	script := chart{
		"script.svg", "One script call holds Redis, 99th percentile", "ms",
		func(r Row) Number { return r.ScriptP99.Times(1e-3) }, 0.001,
	}
	if !known(script.value) {
		script.title = "One script call holds Redis, on average"
		script.value = func(r Row) Number { return r.ScriptMean.Times(1e-3) }
	}
	late := chart{
		"late-p99.svg", "How late renewals are, 99th percentile", "ms",
		func(r Row) Number { return r.LateP99 }, 0.01,
	}
	if !known(late.value) { // too few renewals
		late.title = "How late renewals are, at most"
		late.value = func(r Row) Number { return r.LateMax }
	}
	all := []chart{
		{"client-cpu.svg", "CPU of the client per renewal", "us", func(r Row) Number { return r.ClientCPU }, 0.01},
		{"redis-cpu.svg", "CPU of Redis per renewal", "us", func(r Row) Number { return r.RedisCPU }, 0.01},
		memory,
		{"goroutines.svg", "Goroutines, at most", "", func(r Row) Number { return r.Goroutines }, 1},
		{"late-p50.svg", "How late renewals are, median", "ms", func(r Row) Number { return r.LateP50 }, 0.01},
		late,
		script,
	}
	return slices.DeleteFunc(all, func(c chart) bool { return !known(c.value) })
}

// Sizes of a chart, and of one driver's strip of the server's CPU.
const (
	chartWidth  = 4.5 * vg.Inch // so small that a telephone shows its letters in readable size
	chartHeight = 3.3 * vg.Inch
	stripHeight = 0.75 * vg.Inch
	titleHeight = 0.35 * vg.Inch
)

var (
	ink   = color.RGBA{0x22, 0x22, 0x22, 0xff}
	faint = color.RGBA{0xd0, 0xd0, 0xd0, 0xff}
)

// colorOf is a driver's colour in all charts, of Okabe and Ito's palette, which
// colour-blind eyes tell apart.
func colorOf(driver string) color.RGBA {
	switch driver {
	case WheelBatch:
		return color.RGBA{0x00, 0x72, 0xb2, 0xff}
	case Wheel:
		return color.RGBA{0x00, 0x9e, 0x73, 0xff}
	case AfterFuncBatch:
		return color.RGBA{0xcc, 0x79, 0xa7, 0xff}
	case AfterFunc:
		return color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	case Library:
		return color.RGBA{0xe6, 0x9f, 0x00, 0xff}
	default: // sweep
		return color.RGBA{0x55, 0x55, 0x55, 0xff}
	}
}

// point is a row in a chart.
type point struct {
	locks, value float64
	sound        bool
}

// pointsOf are a driver's points, by number of locks, in pieces: a row without
// a value interrupts the line.
func (c chart) pointsOf(rows []Row, driver string) [][]point {
	mine := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Driver != driver })
	slices.SortFunc(mine, func(a, b Row) int { return a.Locks - b.Locks })
	var pieces [][]point
	open := false
	for _, r := range mine {
		v := c.value(r)
		if !v.Known {
			open = false
			continue
		}
		if !open {
			pieces = append(pieces, nil)
			open = true
		}
		last := &pieces[len(pieces)-1]
		*last = append(*last, point{float64(r.Locks), max(v.Value, c.floor), r.IsSound()})
	}
	return pieces
}

// logarithmic is the end of the label of a logarithmic axis.
const logarithmic = ", logarithmic"

// yLabel is short, because a label makes its axis shorter when it is longer than
// half of that.
func (c chart) yLabel() string {
	if c.isLinear() {
		return c.unit
	}
	return strings.TrimPrefix(c.unit+logarithmic, ", ")
}

// isLinear says whether the values' axis is linear and begins at zero.
func (c chart) isLinear() bool { return c.floor == 0 }

// draw makes the chart.
func (c chart) draw(rows []Row) ([]byte, error) {
	if bars, n, ok := c.barsOf(rows); ok {
		return c.drawBars(bars, n)
	}
	p := newPlot()
	p.Title.Text = c.title
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = nil, faint
	p.Add(grid)
	counts, notes := c.countsOf(rows)
	all, err := c.addLines(p, rows)
	if err != nil {
		return nil, err
	}
	if all.isUnsound {
		notes = append(notes, "ring: missed or lost")
	}
	setCountAxis(p, counts, notes)
	c.setValueAxis(p, all)
	canvas := vgsvg.New(chartWidth, chartHeight)
	p.Draw(newSheet(canvas))
	return encodeSVG(canvas, c.title)
}

// countsOf returns the numbers of locks that have values, and a note if values are drawn at the floor.
func (c chart) countsOf(rows []Row) (counts []int, notes []string) {
	isCut := false
	for _, r := range rows {
		v := c.value(r)
		if !v.Known {
			continue
		}
		isCut = isCut || v.Value < c.floor
		if !slices.Contains(counts, r.Locks) {
			counts = append(counts, r.Locks)
		}
	}
	if isCut {
		notes = append(notes, fmt.Sprintf("%v means that or less", c.floor))
	}
	slices.Sort(counts)
	return counts, notes
}

// extent is what the lines of a chart span.
type extent struct {
	least, most float64 // values
	isUnsound   bool    // a driver has missed or lost locks at a point
}

// addLines adds a line of each driver, with its name at the end.
func (c chart) addLines(p *plot.Plot, rows []Row) (extent, error) {
	all := extent{least: math.Inf(1)}
	names := &labels{}
	for _, driver := range driversOf(rows) {
		pieces := c.pointsOf(rows, driver)
		for _, piece := range pieces {
			line := make(plotter.XYs, len(piece))
			for i, at := range piece {
				line[i] = plotter.XY{X: at.locks, Y: at.value}
				all.least, all.most = min(all.least, at.value), max(all.most, at.value)
				all.isUnsound = all.isUnsound || !at.sound
			}
			if err := addLine(p, line, piece, colorOf(driver)); err != nil {
				return extent{}, err
			}
		}
		if n := len(pieces); n > 0 {
			end := pieces[n-1][len(pieces[n-1])-1]
			names.add(driver, end.locks, end.value)
		}
	}
	p.Add(names)
	return all, nil
}

// setCountAxis makes the axis of the numbers of locks, with notes below it.
func setCountAxis(p *plot.Plot, counts []int, notes []string) {
	p.X.Scale = plot.LogScale{}
	p.X.Label.Text = "locks held" + logarithmic
	if len(notes) > 0 {
		p.X.Label.Text += "\n" + strings.Join(notes, "; ")
	}
	p.X.Min, p.X.Max = float64(counts[0]), float64(counts[len(counts)-1])
	var ticks plot.ConstantTicks
	for _, n := range counts {
		ticks = append(ticks, plot.Tick{Value: float64(n), Label: formatTick(float64(n))})
	}
	p.X.Tick.Marker = ticks
}

// setValueAxis makes the axis of the values.
func (c chart) setValueAxis(p *plot.Plot, all extent) {
	p.Y.Label.Text = c.yLabel()
	if c.isLinear() {
		p.Y.Min, p.Y.Max = 0, max(all.most*1.05, 1)
		p.Y.Tick.Marker = plot.TickerFunc(evenTicks)
		return
	}
	p.Y.Scale = plot.LogScale{}
	p.Y.Min, p.Y.Max = roundDown(all.least*0.97), roundUp(all.most*1.03)
	p.Y.Tick.Marker = plot.TickerFunc(logTicks)
}

// addLine adds a driver's line with a mark at each point.
func addLine(p *plot.Plot, line plotter.XYs, marks []point, c color.Color) error {
	l, s, err := plotter.NewLinePoints(line)
	if err != nil {
		return fmt.Errorf("bench: chart: %w", err)
	}
	l.Color, l.Width = c, vg.Points(1.8)
	s.GlyphStyleFunc = func(i int) draw.GlyphStyle {
		if marks[i].sound {
			return draw.GlyphStyle{Color: c, Radius: vg.Points(3), Shape: draw.CircleGlyph{}}
		}
		return draw.GlyphStyle{Color: c, Radius: vg.Points(4.5), Shape: hollowMark{}}
	}
	p.Add(l, s)
	return nil
}

// hollowMark is a mark that is hollow.
type hollowMark struct{}

func (hollowMark) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	style.Shape = draw.CircleGlyph{}
	c.DrawGlyphNoClip(style, at)
	style.Color, style.Radius = color.White, style.Radius-vg.Points(1.8)
	c.DrawGlyphNoClip(style, at)
}

// driversOf returns the drivers of rows, in the order in which they first occur.
func driversOf(rows []Row) []string {
	var names []string
	for _, r := range rows {
		if !slices.Contains(names, r.Driver) {
			names = append(names, r.Driver)
		}
	}
	return names
}

const serverCPUFile = "server-cpu.svg"

// sampledRows returns the rows with the largest number of locks in which the server
// used CPU, as far as that is known. The other rows would be empty strips.
func sampledRows(rows []Row) []Row {
	empty := func(r Row) bool {
		return !slices.ContainsFunc(r.ServerCPU, func(s CPUSample) bool { return s.Cores.Known && s.Cores.Value > 0 })
	}
	most := 0
	for _, r := range rows {
		if !empty(r) {
			most = max(most, r.Locks)
		}
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Locks != most || empty(r) })
}

// drawServerCPU makes a chart of the server's CPU over time, with a strip for
// each row. It shows whether a load is even or comes in bursts.
func drawServerCPU(rows []Row) ([]byte, error) {
	seconds, cores := 0.0, 0.0
	for _, r := range rows {
		for _, s := range r.ServerCPU {
			seconds, cores = max(seconds, s.At.Value), max(cores, s.Cores.Value)
		}
	}
	top := roundUp(max(cores*100, 10)) // of all strips, so that they compare
	title := fmt.Sprintf("CPU of Redis, %% of a core, with %s", locks(rows[0].Locks))
	var strips [][]*plot.Plot
	for i, r := range rows {
		p := newPlot()
		steps, before := plotter.XYs{}, 0.0
		for _, s := range r.ServerCPU {
			steps = append(steps, plotter.XY{X: before, Y: s.Cores.Value * 100}, plotter.XY{X: s.At.Value, Y: s.Cores.Value * 100})
			before = s.At.Value
		}
		line, err := plotter.NewLine(steps)
		if err != nil {
			return nil, fmt.Errorf("bench: chart: %w", err)
		}
		c := colorOf(r.Driver)
		line.Color, line.Width = c, vg.Points(1)
		c.A = 0x50
		line.FillColor = color.NRGBA(c)
		grid := plotter.NewGrid()
		grid.Vertical.Color, grid.Horizontal.Color = nil, faint
		names := &labels{}
		names.add(r.Driver, seconds, top/2)
		p.Add(grid, line, names)
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, seconds, 0, top
		p.Y.Tick.Marker = plot.ConstantTicks{{Value: 0, Label: "0"}, {Value: top / 2, Label: formatTick(top / 2)}, {Value: top, Label: formatTick(top)}}
		last := i == len(rows)-1
		if last {
			p.X.Label.Text = "seconds"
		}
		p.X.Tick.Marker = secondTicks(seconds, last)
		strips = append(strips, []*plot.Plot{p})
	}
	canvas := vgsvg.New(chartWidth, titleHeight+stripHeight*vg.Length(len(rows)+1))
	all := newSheet(canvas)
	style := newPlot().Title.TextStyle
	all.FillText(style, vg.Point{X: all.Center().X, Y: all.Max.Y}, title)
	tiles := draw.Tiles{Rows: len(strips), Cols: 1, PadTop: titleHeight, PadY: vg.Points(2)}
	for i, c := range plot.Align(strips, tiles, all) {
		strips[i][0].Draw(c[0])
	}
	return encodeSVG(canvas, title)
}

// newPlot returns an empty plot in the style of this report.
func newPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil // the sheet is white
	sans := font.Font{Typeface: "Liberation", Variant: "Sans"}
	for style, size := range map[*text.Style]vg.Length{
		&p.Title.TextStyle:   13,
		&p.X.Label.TextStyle: 11, &p.Y.Label.TextStyle: 9,
		&p.X.Tick.Label: 10, &p.Y.Tick.Label: 10,
	} {
		style.Font, style.Color = font.From(sans, size), ink
	}
	p.Title.Padding = vg.Points(10)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Color, axis.Tick.Color = ink, ink
		axis.Padding = vg.Points(4)
		axis.Label.Padding = vg.Points(3)
	}
	return p
}

// newSheet returns a white canvas with a margin.
func newSheet(canvas *vgsvg.Canvas) draw.Canvas {
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Path())
	return draw.Crop(c, vg.Points(6), -vg.Points(6), vg.Points(6), -vg.Points(8))
}

// encodeSVG returns the drawing as a document that may also be part of an HTML page, in a font
// that readers have.
func encodeSVG(canvas *vgsvg.Canvas, title string) ([]byte, error) {
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("bench: chart: %w", err)
	}
	s := b.String()
	s = s[strings.Index(s, "<svg"):]
	s = strings.Replace(s, "\n\txmlns:xlink=\"http://www.w3.org/1999/xlink\"", "", 1)
	s = strings.Replace(s, "<svg ", fmt.Sprintf("<svg role=\"img\" aria-label=%q ", title), 1)
	s = strings.ReplaceAll(s, "font-family:Liberation Sans;font-variant:normal;font-weight:normal;font-style:normal",
		"font-family:'Liberation Sans',Arial,Helvetica,sans-serif")
	return []byte(fitTexts(s)), nil
}

var textElement = regexp.MustCompile(`(?s)<text ([^>]*font-size:([\d.]+)px[^>]*)>([^<]+)</text>`)

// fitTexts gives each text the width that it has in our font. A reader's
// font may be wider, and then the text would be cut off or overlap its neighbours.
func fitTexts(s string) string {
	style := newPlot().X.Label.TextStyle
	return textElement.ReplaceAllStringFunc(s, func(element string) string {
		m := textElement.FindStringSubmatch(element)
		points, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return element
		}
		style.Font.Size = vg.Points(points)
		width := style.Width(html.UnescapeString(m[3])).Points()
		return fmt.Sprintf(`<text textLength="%.1f" lengthAdjust="spacingAndGlyphs" %s>%s</text>`, width, m[1], m[3])
	})
}
