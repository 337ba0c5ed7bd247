package run

import (
	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/renewal"
)

// Driver is one way to keep locks renewed.
type Driver struct {
	Name    string
	sweep   bool           // bench's own; otherwise the engine with this setting:
	renewal renewal.Config // of lock.Config
}

// Dispatchers is how many round trips the drivers without batches may have under
// way: enough to keep a server busy, and what a pool by hand would have.
const Dispatchers = 64

// Drivers are those that the report names, in its order.
func Drivers() []Driver {
	return []Driver{
		{Name: report.WheelBatch},
		{Name: report.Wheel, renewal: renewal.Config{MaxBatch: 1, Dispatchers: Dispatchers}},
		{Name: report.AfterFuncBatch, renewal: renewal.Config{Driver: renewal.AfterFunc}},
		{Name: report.AfterFunc, renewal: renewal.Config{Driver: renewal.AfterFunc, MaxBatch: 1, Dispatchers: Dispatchers}},
		{Name: report.Sweep, sweep: true},
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
