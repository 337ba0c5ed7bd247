// Lockbench measures package lock beside other Go clients that lock on one Redis. Each run is a child
// process of its own against the same server; it prints a line of JSON for each run and then the
// tables, with the median of the runs.
//
//	go run ./lockbench [-rows pairs,lone,onekey,processes,beside,held,kept] [-impls wheellock,redsync] [-duration 2s] [-runs 5] [-redis ADDR]
//
// Without -redis it starts a redis-server of its own. Critical sections are empty, except in the row
// beside. The settings of each rival are in impls.go.
package main

import (
	"context"
	"flag"
	"os"
	"slices"
	"time"

	"github.com/wheellock/wheellock/bench/peers/internal/rows"
	"github.com/wheellock/wheellock/integration/redistest"
)

// result is what a child found. Not all rows have all of it.
type result struct {
	rows.Run

	PerS      float64 `json:"per_s,omitempty"`             // lock+unlock pairs
	P50       float64 `json:"p50_us,omitempty"`            // of a pair
	P99       float64 `json:"p99_us,omitempty"`            // of a pair
	ClientCPU float64 `json:"client_us_per_op,omitempty"`  // CPU of this process
	RedisCPU  float64 `json:"redis_us_per_op,omitempty"`   // CPU of Redis, with its system calls
	Scripts   float64 `json:"scripts_us_per_op,omitempty"` // what Redis spent within the clients' commands
	Changes   float64 `json:"changes_per_s,omitempty"`     // acquisitions by another than the last holder
	WaitP99   float64 `json:"wait_p99_ms,omitempty"`       // from the call of lock to its return; those still waiting at the end count as they stand
	WaitMax   float64 `json:"wait_max_ms,omitempty"`
	Least     float64 `json:"least"` // acquisitions of a goroutine
	Most      float64 `json:"most,omitempty"`
	Overlaps  int     `json:"overlaps"` // acquisitions while another held
	Bytes     float64 `json:"bytes_per_lock,omitempty"`
	Gos       float64 `json:"goroutines_per_lock"`
	Share     float64 `json:"strangers_share,omitempty"`   // of the acquisitions, in percent
	Refused   float64 `json:"strangers_refused,omitempty"` // of its tries of 5 s, in percent
	Won       float64 `json:"strangers_won,omitempty"`     // of the releases at which it waited, in percent
	Core      float64 `json:"client_percent,omitempty"`    // of a core, that this process used
	RedisCore float64 `json:"redis_percent,omitempty"`     // of a core, that Redis used
	RSS       float64 `json:"rss_mib,omitempty"`           // of this process
	Routines  int     `json:"goroutines,omitempty"`        // of this process
	Taken     float64 `json:"taken_s,omitempty"`           // until all names were taken
	Errors    int     `json:"errors"`                      // calls that failed for another reason than the end of the run
}

type column = rows.Column[result]

var (
	perS      = column{Name: "pairs/s", Of: func(r result) float64 { return r.PerS }, Form: "%.0f"}
	taken     = column{Name: "acquisitions/s", Of: func(r result) float64 { return r.PerS }, Form: "%.0f"}
	p50       = column{Name: "p50 us", Of: func(r result) float64 { return r.P50 }, Form: "%.0f"}
	p99       = column{Name: "p99 us", Of: func(r result) float64 { return r.P99 }, Form: "%.0f"}
	clientCPU = column{Name: "client CPU us", Of: func(r result) float64 { return r.ClientCPU }, Form: "%.1f"}
	redisCPU  = column{Name: "Redis CPU us", Of: func(r result) float64 { return r.RedisCPU }, Form: "%.1f"}
	scripts   = column{Name: "of that, scripts", Of: func(r result) float64 { return r.Scripts }, Form: "%.1f"}
	changes   = column{Name: "changes of holder/s", Of: func(r result) float64 { return r.Changes }, Form: "%.0f"}
	waitP99   = column{Name: "wait p99 ms", Of: func(r result) float64 { return r.WaitP99 }, Form: "%.1f"}
	waitMax   = column{Name: "wait max ms", Of: func(r result) float64 { return r.WaitMax }, Form: "%.0f"}
	least     = column{Name: "least", Of: func(r result) float64 { return r.Least }, Form: "%.0f"}
	most      = column{Name: "most", Of: func(r result) float64 { return r.Most }, Form: "%.0f"}
	overlaps  = column{Name: "overlaps", Of: func(r result) float64 { return float64(r.Overlaps) }, Form: "%.0f"}
	perLock   = column{Name: "B/lock", Of: func(r result) float64 { return r.Bytes }, Form: "%.0f"}
	gos       = column{Name: "goroutines/lock", Of: func(r result) float64 { return r.Gos }, Form: "%.2f"}
	share     = column{Name: "stranger's turns %", Of: func(r result) float64 { return r.Share }, Form: "%.1f"}
	refused   = column{Name: "its refusals %", Of: func(r result) float64 { return r.Refused }, Form: "%.1f"}
	won       = column{Name: "of releases it waited at, won %", Of: func(r result) float64 { return r.Won }, Form: "%.1f"}
	core      = column{Name: "client % of a core", Of: func(r result) float64 { return r.Core }, Form: "%.2f"}
	redisCore = column{Name: "Redis % of a core", Of: func(r result) float64 { return r.RedisCore }, Form: "%.2f"}
	rss       = column{Name: "RSS MiB", Of: func(r result) float64 { return r.RSS }, Form: "%.0f"}
	routines  = column{Name: "goroutines", Of: func(r result) float64 { return float64(r.Routines) }, Form: "%.0f"}
	takenIn   = column{Name: "all taken s", Of: func(r result) float64 { return r.Taken }, Form: "%.2f"}
	failed    = column{Name: "errors", Of: func(r result) float64 { return float64(r.Errors) }, Form: "%.0f"}
)

// libraries are for rows in which no client waits; waiting are for rows in which many do. There the pause
// of a client that polls counts.
var (
	libraries = []string{"wheellock", "redsync", "redislock", "rueidislock", "rueidislock-default"}
	waiting   = []string{"wheellock", "redsync", "redsync-default", "redislock", "redislock-default", "rueidislock", "rueidislock-default"}
)

var tables = []rows.Table[result]{
	{
		Name: "pairs", Title: "Lock and unlock of distinct keys by %d goroutines",
		Counts:  []int{128, 32, 16, 8, 4, 2, 1},
		Impls:   append(slices.Clone(libraries), "wheellock-pool", "bare", "bare-limited"),
		Measure: measurePairs,
		Columns: []column{perS, p50, p99, clientCPU, redisCPU, scripts, failed},
	},
	{
		Name: "lone", Title: "Lock and unlock of distinct keys by %d processes of one goroutine",
		Counts:  []int{32},
		Impls:   libraries,
		Measure: measureLone,
		Columns: []column{perS, p50, p99, clientCPU, redisCPU, scripts, failed},
	},
	{
		Name: "onekey", Title: "%d goroutines of one process on one key",
		Counts:  []int{64},
		Impls:   waiting,
		Measure: measureOneKey,
		Columns: []column{taken, changes, waitP99, waitMax, least, most, overlaps, failed},
	},
	{
		Name: "processes", Title: "%d processes of 8 goroutines on one key",
		Counts:  []int{8},
		Impls:   waiting,
		Measure: measureProcesses,
		Columns: []column{taken, changes, waitP99, waitMax, least, most, overlaps, failed},
	},
	{
		Name: "beside", Title: "%d processes of 64 goroutines together, and a client like Redisson of 16 threads, on one key",
		Counts:  []int{8, 1},
		Impls:   []string{"beside", "alone", "stranger-alone"},
		Measure: measureBeside,
		Columns: []column{taken, share, refused, won, waitP99, waitMax, overlaps, failed},
	},
	{
		Name: "held", Title: "%d held locks with names of 12 bytes; redsync and redislock do not renew theirs",
		Counts:  []int{100_000},
		Impls:   libraries,
		Measure: measureHeld,
		Columns: []column{perLock, gos, failed},
	},
	{
		Name: "kept", Title: "%d names that another process keeps, with its renewals, and how long it takes to have them when it releases all",
		Counts:  []int{50_000},
		Impls:   []string{"keeper", "loop"},
		Measure: measureKept,
		Columns: []column{core, redisCore, rss, routines, takenIn, failed},
	},
}

var (
	addr  = flag.String("redis", "", "address of the server to use; by default one of its own")
	pause = flag.Duration("pause", 5*time.Millisecond, "what redsync and redislock wait between two tries, at random up to twice that; "+
		"of 1 to 100 ms, 5 ms is the best compromise between throughput and waiting on two cores")
	again = flag.Duration("again", 300*time.Microsecond, "what a thread of the row beside takes from its unlock to its next tryLock")
	hold  = flag.Duration("hold", 5*time.Millisecond, "for how long the lock is held in the row beside")
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		work(os.Args[2:])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "worker-beside" {
		workBeside(os.Args[2:])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "worker-kept" {
		workKept(os.Args[2:])
		return
	}
	rows.Main(tables, 2*time.Second, 5, func() ([]string, func(), error) {
		args := func(addr string) []string {
			return []string{"-redis", addr, "-pause", pause.String(), "-hold", hold.String(), "-again", again.String()}
		}
		if *addr != "" {
			return args(*addr), func() {}, nil
		}
		server, err := redistest.Start(context.Background(), redistest.Options{})
		if err != nil {
			return nil, nil, err
		}
		return args(server.Addr()), func() { _ = server.Stop() }, nil
	})
}
