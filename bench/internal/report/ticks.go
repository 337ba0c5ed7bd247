package report

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// logTicks marks 1, 2 and 5 of each decade; of many decades only the 1 has a
// label.
func logTicks(least, most float64) []plot.Tick {
	var ticks []plot.Tick
	few := most/least < 1500
	for decade := math.Pow(10, math.Floor(math.Log10(least)+1e-9)); decade <= most*1.001; decade *= 10 {
		for _, digit := range []float64{1, 2, 5} {
			v := decade * digit
			if v < least*0.999 || v > most*1.001 {
				continue
			}
			label := ""
			if few || digit == 1 {
				label = formatTick(v)
			}
			ticks = append(ticks, plot.Tick{Value: v, Label: label})
		}
	}
	return ticks
}

// roundDown returns the largest number not above v that is 1, 2 or 5 times a power
// of ten.
func roundDown(v float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)))
	for _, digit := range []float64{5, 2} {
		if decade*digit <= v {
			return decade * digit
		}
	}
	return decade
}

// roundUp returns the smallest such number that is not below v.
func roundUp(v float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)))
	for _, digit := range []float64{1, 2, 5} {
		if decade*digit >= v {
			return decade * digit
		}
	}
	return decade * 10
}

// formatTick writes a number as 12,345 or 0.05.
func formatTick(v float64) string {
	s := strconv.FormatFloat(v, 'g', 6, 64)
	if v >= 1 {
		s = strconv.FormatFloat(v, 'f', -1, 64)
	}
	return groupThousands(s)
}

// evenTicks marks an axis that begins at zero, about five times.
func evenTicks(_, most float64) []plot.Tick {
	var ticks []plot.Tick
	for i, step := 0, roundUp(most/5); float64(i)*step <= most*1.001; i++ {
		v := float64(i) * step
		ticks = append(ticks, plot.Tick{Value: v, Label: formatTick(math.Round(v*1e6) / 1e6)})
	}
	return ticks
}

// secondTicks marks an axis of seconds, about eight times.
func secondTicks(most float64, labelled bool) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for i, step := 0, roundUp(most/8); float64(i)*step <= most; i++ {
		t := plot.Tick{Value: float64(i) * step}
		if labelled {
			t.Label = formatTick(math.Round(t.Value*1e6) / 1e6)
		}
		ticks = append(ticks, t)
	}
	return ticks
}
