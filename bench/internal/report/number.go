package report

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// Number is a measured value, or n/a: null in JSON. The zero Number is n/a.
type Number struct {
	Value float64
	Known bool // false: n/a, and Value means nothing
}

// NumberOf is a Number with this value; n/a if it is not finite.
func NumberOf[T int | int64 | uint64 | float64](v T) Number {
	return Number{Value: float64(v), Known: !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)}
}

// Milliseconds is a duration in milliseconds.
func Milliseconds(d time.Duration) Number { return NumberOf(float64(d) / float64(time.Millisecond)) }

// Per is n divided by a count; n/a if there is nothing to divide by.
func (n Number) Per(count float64) Number {
	if !n.Known || count <= 0 {
		return Number{}
	}
	return NumberOf(n.Value / count)
}

// Times is n multiplied by a factor.
func (n Number) Times(factor float64) Number {
	n.Value *= factor
	return n
}

// Plus is a sum; n/a if a part of it is.
func (n Number) Plus(other Number) Number {
	if !n.Known || !other.Known {
		return Number{}
	}
	return NumberOf(n.Value + other.Value)
}

// Minus is the difference of two readings of one counter.
func (n Number) Minus(earlier Number) Number {
	if !n.Known || !earlier.Known {
		return Number{}
	}
	return NumberOf(n.Value - earlier.Value)
}

// isZero says that the value is known and 0.
func (n Number) isZero() bool { return n.Known && n.Value == 0 }

// MarshalJSON writes the value to six decimals.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.Known {
		return []byte("null"), nil
	}
	// Counts stay integers, and nothing becomes 1e+06.
	return strconv.AppendFloat(nil, math.Round(n.Value*1e6)/1e6, 'f', -1, 64), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (n *Number) UnmarshalJSON(b []byte) error {
	*n = Number{}
	if string(b) == "null" {
		return nil
	}
	n.Known = true
	return json.Unmarshal(b, &n.Value)
}

// digits returns the value with this number of decimals, like 12,345.6, or n/a.
func (n Number) digits(decimals int) string {
	if !n.Known {
		return "n/a"
	}
	return groupThousands(strconv.FormatFloat(n.Value, 'f', decimals, 64))
}

// noBreak is a space at which no line ends. It stands between a number and its
// unit.
const noBreak = "\u00a0"

// withUnit is the value with a unit, or n/a. Without a unit it is digits.
func (n Number) withUnit(unit string, decimals int) string {
	if !n.Known || unit == "" {
		return n.digits(decimals)
	}
	return n.digits(decimals) + noBreak + unit
}

// mebibytes is a number of bytes in MiB.
func (n Number) mebibytes() Number { return n.Times(1.0 / (1 << 20)) }

// Count writes a count as 12,345.
func Count[T int | int64](n T) string { return groupThousands(strconv.FormatInt(int64(n), 10)) }

// groupThousands puts a comma between the thousands of a decimal number.
func groupThousands(s string) string {
	whole, rest, decimals := strings.Cut(s, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if decimals {
		whole += "." + rest
	}
	return sign + whole
}

// leastForP99 is how many values a 99th percentile needs: of fewer it would be
// the largest.
const leastForP99 = 100

// P99 returns value, a 99th percentile, or n/a if the number of values, which is the
// second argument, is too small for one.
func P99(value, of Number) Number {
	if !of.Known || of.Value < leastForP99 {
		return Number{}
	}
	return value
}

// p99Cell is a 99th percentile in a table. It says so when the values were too
// few.
func p99Cell(value, of Number, decimals int) string {
	if !value.Known && of.Known && of.Value > 0 && of.Value < leastForP99 {
		return "too few"
	}
	return value.digits(decimals)
}
