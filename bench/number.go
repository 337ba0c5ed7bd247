package main

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// number is a measured value, or n/a: null in JSON.
type number struct {
	value float64
	known bool
}

func some[T int | int64 | uint64 | float64](v T) number {
	return number{value: float64(v), known: !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)}
}

func millis(d time.Duration) number { return some(float64(d) / float64(time.Millisecond)) }

// per is n divided by a count; n/a if there is nothing to divide by.
func (n number) per(count float64) number {
	if !n.known || count <= 0 {
		return number{}
	}
	return some(n.value / count)
}

// times is n multiplied by a factor.
func (n number) times(factor float64) number {
	n.value *= factor
	return n
}

// plus is a sum; n/a if a part of it is.
func (n number) plus(other number) number {
	if !n.known || !other.known {
		return number{}
	}
	return some(n.value + other.value)
}

// minus is the difference of two readings of one counter.
func (n number) minus(earlier number) number {
	if !n.known || !earlier.known {
		return number{}
	}
	return some(n.value - earlier.value)
}

// isZero says that the value is known and 0.
func (n number) isZero() bool { return n.known && n.value == 0 }

func (n number) MarshalJSON() ([]byte, error) {
	if !n.known {
		return []byte("null"), nil
	}
	// Counts stay integers, and nothing becomes 1e+06.
	return strconv.AppendFloat(nil, math.Round(n.value*1e6)/1e6, 'f', -1, 64), nil
}

func (n *number) UnmarshalJSON(b []byte) error {
	*n = number{}
	if string(b) == "null" {
		return nil
	}
	n.known = true
	return json.Unmarshal(b, &n.value)
}

// digits is the value with so many decimals, or n/a.
func (n number) digits(decimals int) string {
	if !n.known {
		return "n/a"
	}
	return strconv.FormatFloat(n.value, 'f', decimals, 64)
}

// size is the value in MiB, or n/a.
func (n number) size() string {
	if !n.known {
		return "n/a"
	}
	return strconv.FormatFloat(n.value/(1<<20), 'f', 1, 64) + " MiB"
}
