package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock/script"
)

// The benchmarks of this file ask for the most that client and server can do
// together on this machine:
//
//	go test ./bench -run '^$' -bench Most -benchtime 1x -timeout 20m

var mostCounts = []int{100_000, 1_000_000}

const lockPrefix = "most:"

func lockName(i int) string { return lockPrefix + strconv.Itoa(i) }

// inParallel runs f in n goroutines, each with a connection of its own.
func inParallel(b *testing.B, srv *redistest.Server, n int, f func(worker int, conn redis.Conn) error) {
	var wg sync.WaitGroup
	for w := range n {
		wg.Go(func() {
			conn, err := srv.Dial()
			if err == nil {
				defer conn.Close()
				err = f(w, conn)
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}

const mostTime = 5 * time.Second

// renewBare renews n locks over and over on conns connections, with batch locks in each
// call of the script. It returns the renewals per second.
func renewBare(b *testing.B, n, conns, batch int) float64 {
	srv := fixture.Server(b)
	names, fields := make([]any, n), make([]any, n)
	inParallel(b, srv, 1, func(_ int, conn redis.Conn) error {
		for i := range n {
			names[i], fields[i] = lockName(i), fmt.Sprintf("%d:%d", i, i)
			if err := conn.Send("HSET", names[i], "client:"+fields[i].(string), 1); err != nil {
				return err
			}
			if i%1000 == 999 {
				if _, err := conn.Do(""); err != nil {
					return err
				}
			}
		}
		_, err := conn.Do("")
		return err
	})
	var done, batches atomic.Int64
	begun := time.Now()
	inParallel(b, srv, conns, func(_ int, conn redis.Conn) error {
		args := make([]any, 0, 2*batch+4)
		for time.Since(begun) < mostTime {
			from := int(batches.Add(1)-1) * batch % n
			to := min(from+batch, n)
			args = append(args[:0], nil, to-from)
			args = append(args, names[from:to]...)
			args = append(args, 60_000, "client:")
			args = append(args, fields[from:to]...)
			gone, err := redis.Ints(holders.Eval(conn, mostTime, script.Renew, args))
			if err != nil || len(gone) > 0 {
				return fmt.Errorf("%d gone: %w", len(gone), err)
			}
			done.Add(int64(to - from))
		}
		return nil
	})
	return float64(done.Load()) / time.Since(begun).Seconds()
}

// BenchmarkMostRenewals compares the library with loops that only send the same
// script: one with the library's batches, and one with a round trip for each lock.
// The lease asks the library for 1.2 times the renewals of the loop. If the library keeps up,
// its figure is no limit: it does at least that.
func BenchmarkMostRenewals(b *testing.B) {
	for _, n := range mostCounts {
		bare := 0.0
		b.Run(fmt.Sprintf("impl=bare/locks=%d", n), func(b *testing.B) {
			for b.Loop() {
				bare = renewBare(b, n, holders.Batchers, holders.BatchSize)
			}
			b.ReportMetric(bare, "renewals/s")
		})
		b.Run(fmt.Sprintf("impl=round-trip/locks=%d", n), func(b *testing.B) {
			each := 0.0
			for b.Loop() {
				each = renewBare(b, n, holders.RoundTrips, 1)
			}
			b.ReportMetric(each, "renewals/s")
		})
		b.Run(fmt.Sprintf("impl=library/locks=%d", n), func(b *testing.B) {
			if bare == 0 {
				b.Skip("needs impl=bare")
			}
			lease := time.Duration(2.5*float64(n)/bare*1000) * time.Millisecond
			for b.Loop() {
				srv := fixture.Server(b)
				h := library(b, srv, n, lease)
				takeAll(b, h, n)
				time.Sleep(lease)
				h.Begin()
				begun := time.Now()
				time.Sleep(mostTime)
				c := h.Counters()
				r := report.Row{
					Locks: n, Missed: report.NumberOf(c.Missed), Lost: report.NumberOf(0),
					LateP99:           report.Milliseconds(c.P99),
					RenewalsPerSecond: report.NumberOf(float64(c.Renewals) / time.Since(begun).Seconds()),
				}
				b.ReportMetric(3*float64(n)/lease.Seconds(), "asked/s")
				b.ReportMetric(r.RenewalsPerSecond.Value, "renewals/s")
				b.ReportMetric(r.LateP99.Value, "late-p99-ms")
				b.ReportMetric(r.Missed.Value, "missed")
				if r.KeptUp(lease) {
					b.Logf("kept all that was asked: the library does at least %.0f renewals/s", r.RenewalsPerSecond.Value)
				}
				h.Close()
			}
		})
	}
}

// library is the row of the library, which holds no lock yet.
func library(b *testing.B, srv *redistest.Server, n int, lease time.Duration) *holders.Holding {
	d, _ := holders.DriverNamed(report.Library)
	h, err := holders.Hold(d, holders.OneServer(srv), lockPrefix, n, lease)
	require.NoError(b, err)
	return h
}

// takeAll acquires n locks from many goroutines.
func takeAll(b *testing.B, h *holders.Holding, n int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range run.Workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := h.Acquire(context.Background(), i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkMostAcquisitions compares taking locks with a loop that does nothing
// but send the same script over as many connections, as many under way.
func BenchmarkMostAcquisitions(b *testing.B) {
	const conns = 2
	for _, n := range mostCounts {
		b.Run(fmt.Sprintf("impl=bare/locks=%d", n), func(b *testing.B) {
			for b.Loop() {
				srv := fixture.Server(b)
				begun := time.Now()
				inParallel(b, srv, conns, func(w int, conn redis.Conn) error {
					return acquireBare(conn, n*w/conns, n*(w+1)/conns, run.Workers/conns)
				})
				b.ReportMetric(float64(n)/time.Since(begun).Seconds(), "locks/s")
			}
		})
		b.Run(fmt.Sprintf("impl=library/locks=%d", n), func(b *testing.B) {
			for b.Loop() {
				srv := fixture.Server(b)
				h := library(b, srv, n, 10*time.Minute)
				begun := time.Now()
				takeAll(b, h, n)
				b.ReportMetric(float64(n)/time.Since(begun).Seconds(), "locks/s")
				h.Close()
			}
		})
	}
}

// acquireBare takes the locks with the numbers from to to-1. It has up to window requests under way.
func acquireBare(conn redis.Conn, from, to, window int) error {
	if err := conn.Send("SCRIPT", "LOAD", script.Acquire.Text()); err != nil {
		return err
	}
	if _, err := conn.Do(""); err != nil {
		return err
	}
	least := strconv.FormatInt(time.Now().Unix()<<20, 10)
	sent, got := from, from
	for got < to {
		for sent < min(got+window, to) {
			name := lockName(sent)
			if err := conn.Send("EVALSHA", script.Acquire.SHA(), 2, name, holders.TokenCounter, "client:"+name+":1", 600_000, least, 0); err != nil {
				return err
			}
			sent++
		}
		if err := conn.Flush(); err != nil {
			return err
		}
		for half := max((sent-got)/2, 1); half > 0; half-- {
			reply, err := redis.Int64s(conn.Receive())
			if err != nil || len(reply) != 2 || reply[0] != 1 {
				return fmt.Errorf("lock %d: %v, %w", got, reply, err)
			}
			got++
		}
	}
	return nil
}
