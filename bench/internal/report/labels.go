package report

import (
	"cmp"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// labels names the lines at their right ends, moved so far that no name covers
// another.
type labels struct {
	names []string
	at    plotter.XYs
}

func (l *labels) add(name string, x, y float64) {
	l.names = append(l.names, name)
	l.at = append(l.at, plotter.XY{X: x, Y: y})
}

const (
	labelGap    vg.Length = 10 // between the axes' end and a name
	labelHeight vg.Length = 13
)

func (l *labels) style(p *plot.Plot) text.Style {
	style := p.X.Label.TextStyle
	style.XAlign, style.YAlign = text.XLeft, text.YCenter
	return style
}

// GlyphBoxes makes room for the names.
func (l *labels) GlyphBoxes(p *plot.Plot) []plot.GlyphBox {
	width := vg.Length(0)
	for _, name := range l.names {
		width = max(width, l.style(p).Width(name))
	}
	room := vg.Rectangle{Max: vg.Point{X: labelGap + width, Y: 1}}
	return []plot.GlyphBox{{X: 1, Y: 0.5, Rectangle: room}}
}

// Plot draws the names.
func (l *labels) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	order := make([]int, len(l.names))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(l.at[a].Y, l.at[b].Y)
	})
	heights := make([]vg.Length, len(order))
	for k, i := range order {
		heights[k] = y(l.at[i].Y)
	}
	for k, h := range spread(heights, labelHeight, c.Min.Y, c.Max.Y) {
		i := order[k]
		end := vg.Point{X: x(l.at[i].X), Y: y(l.at[i].Y)}
		name := vg.Point{X: c.Max.X + labelGap, Y: h}
		line := draw.LineStyle{Color: colorOf(l.names[i]), Width: vg.Points(0.6), Dashes: []vg.Length{1, 2}}
		c.StrokeLines(line, []vg.Point{end, {X: name.X - 2, Y: name.Y}})
		c.FillText(l.style(p), name, l.names[i])
	}
}

// spread moves heights, which rise, so that they are at least gap apart, and
// within bounds if there is room.
func spread(heights []vg.Length, gap, lowest, highest vg.Length) []vg.Length {
	out := slices.Clone(heights)
	for i := 1; i < len(out); i++ {
		out[i] = max(out[i], out[i-1]+gap)
	}
	limit := highest
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = min(out[i], limit)
		limit = out[i] - gap
	}
	limit = lowest
	for i := range out {
		out[i] = max(out[i], limit)
		limit = out[i] + gap
	}
	return out
}
