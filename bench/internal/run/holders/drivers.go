package holders

import (
	"fmt"
	"time"

	"github.com/wheellock/wheellock/bench/internal/report"
)

// Driver is one way to keep locks renewed.
type Driver struct {
	Name string
	keep func(*lockSet) (Holder, error) // nil: the library
}

// Drivers returns all drivers in the order of the report.
func Drivers() []Driver {
	return []Driver{
		{report.AfterFunc, func(k *lockSet) (Holder, error) { return newTimed(k, &afterFuncs{}, oneByOne) }},
		{report.Wheel, func(k *lockSet) (Holder, error) { return newTimed(k, &wheelTimers{}, oneByOne) }},
		{report.AfterFuncBatch, func(k *lockSet) (Holder, error) { return newTimed(k, &afterFuncs{}, inBatches) }},
		{report.WheelBatch, func(k *lockSet) (Holder, error) { return newTimed(k, &wheelTimers{}, inBatches) }},
		{report.Library, nil},
		{report.Sweep, func(k *lockSet) (Holder, error) { return newSweep(k), nil }},
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

// Hold returns the driver's holder of n locks, named prefix and their number. It
// holds none yet.
func Hold(d Driver, t *Target, prefix string, n int, lease time.Duration) (*Holding, error) {
	m, err := newMeter(prefix, n, len(t.servers), lease)
	if err != nil {
		return nil, err
	}
	var h Holder
	if d.keep == nil {
		h, err = newLibrary(t, m, prefix, n, lease)
	} else {
		h, err = d.keep(newLockSet(t, m, prefix, n, lease))
	}
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return &Holding{h, m}, nil
}
