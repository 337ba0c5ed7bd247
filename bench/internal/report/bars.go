package report

import (
	"fmt"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	barStep   = 20 * vg.Length(1) // from one bar to the next
	barHeight = 12 * vg.Length(1)
	barGap    = 6 * vg.Length(1) // between a bar and the text beside it
)

// bar is a row in a chart of one number of locks.
type bar struct {
	driver string
	value  Number
	sound  bool
}

// barsOf returns the bars of rows that have a value, and their number of locks. ok
// is false if these rows have several numbers of locks, or none.
func (c chart) barsOf(rows []Row) (bars []bar, n int, ok bool) {
	for _, r := range rows {
		v := c.value(r)
		if !v.Known {
			continue
		}
		if len(bars) > 0 && r.Locks != n {
			return nil, 0, false
		}
		bars, n = append(bars, bar{r.Driver, v, r.IsSound()}), r.Locks
	}
	return bars, n, len(bars) > 0
}

// drawBars draws a bar from zero for each row, with the value at its end. It is used
// if there is only one number of locks, for which a line chart would show no line.
func (c chart) drawBars(bars []bar, n int) ([]byte, error) {
	canvas := vgsvg.New(chartWidth, titleHeight+barStep*vg.Length(len(bars)+1)+14)
	all := newSheet(canvas)
	p := newPlot()
	all.FillText(p.Title.TextStyle, vg.Point{X: all.Center().X, Y: all.Max.Y}, c.title)
	names, values := p.X.Label.TextStyle, p.X.Label.TextStyle
	names.XAlign, names.YAlign = text.XRight, text.YCenter
	values.XAlign, values.YAlign = text.XLeft, text.YCenter

	left, right, most := vg.Length(0), vg.Length(0), 0.0
	hollow := false
	for _, b := range bars {
		left = max(left, names.Width(b.driver))
		right = max(right, values.Width(c.text(b.value)))
		most = max(most, b.value.Value)
		hollow = hollow || !b.sound
	}
	from, to := all.Min.X+left+barGap, all.Max.X-right-barGap
	y := all.Max.Y - titleHeight - barStep/2
	for _, b := range bars {
		end := from
		if most > 0 {
			end += (to - from) * vg.Length(max(b.value.Value, 0)/most)
		}
		corners := []vg.Point{{X: from, Y: y - barHeight/2}, {X: end, Y: y - barHeight/2}, {X: end, Y: y + barHeight/2}, {X: from, Y: y + barHeight/2}}
		if b.sound {
			all.FillPolygon(colorOf(b.driver), corners)
		} else {
			all.StrokeLines(draw.LineStyle{Color: colorOf(b.driver), Width: vg.Points(1.5)}, append(corners, corners[0]))
		}
		all.FillText(names, vg.Point{X: from - barGap, Y: y}, b.driver)
		all.FillText(values, vg.Point{X: end + barGap, Y: y}, c.text(b.value))
		y -= barStep
	}
	foot := p.X.Label.TextStyle
	foot.XAlign, foot.YAlign = text.XCenter, text.YBottom
	note := "with " + locks(n)
	if hollow {
		note += "; hollow: missed or lost"
	}
	all.FillText(foot, vg.Point{X: all.Center().X, Y: all.Min.Y}, note)
	return encodeSVG(canvas, fmt.Sprintf("%s, with %s", c.title, locks(n)))
}

// text returns a value with the chart's unit.
func (c chart) text(v Number) string {
	decimals := 0
	switch {
	case c.unit == "":
	case v.Value < 1:
		decimals = 2
	case v.Value < 100:
		decimals = 1
	}
	return v.withUnit(c.unit, decimals)
}
