package run

import "github.com/wheellock/wheellock/bench/internal/report"

// Driver is one way to keep locks renewed.
type Driver struct {
	Name string
	keep func(*keeper) (Holder, error) // nil: the library
}

const (
	// RoundTrips is how many round trips the rows without batches may have under
	// way to each master: enough to keep a server busy, and what a pool by hand
	// would have.
	RoundTrips = 64
	// Batchers is how many batches may be under way to each master, as in the
	// library.
	Batchers = 2
)

// Drivers are those that the report names, in its order.
func Drivers() []Driver {
	return []Driver{
		{report.AfterFunc, func(k *keeper) (Holder, error) { return newTimed(k, &afterFuncs{}, roundTrips) }},
		{report.Wheel, func(k *keeper) (Holder, error) { return newTimed(k, &wheelTimers{}, roundTrips) }},
		{report.AfterFuncBatch, func(k *keeper) (Holder, error) { return newTimed(k, &afterFuncs{}, batches) }},
		{report.WheelBatch, func(k *keeper) (Holder, error) { return newTimed(k, &wheelTimers{}, batches) }},
		{report.Library, nil},
		{report.Sweep, func(k *keeper) (Holder, error) { return newSweep(k), nil }},
	}
}

// DriverNamed is the driver of that name, if there is one.
func DriverNamed(name string) (Driver, bool) {
	for _, d := range Drivers() {
		if d.Name == name {
			return d, true
		}
	}
	return Driver{}, false
}
