package report

import (
	"encoding/json"
	"math"
	"strconv"
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

// digits is the value with so many decimals, or n/a.
func (n Number) digits(decimals int) string {
	if !n.Known {
		return "n/a"
	}
	return strconv.FormatFloat(n.Value, 'f', decimals, 64)
}

// size is the value in MiB, or n/a.
func (n Number) size() string {
	if !n.Known {
		return "n/a"
	}
	return strconv.FormatFloat(n.Value/(1<<20), 'f', 1, 64) + " MiB"
}
