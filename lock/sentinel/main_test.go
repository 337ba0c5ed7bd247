package sentinel_test

import (
	"flag"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
)

func TestMain(m *testing.M) {
	// The tests mostly wait. -parallel on the command line still wins.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// fake is a sentinel whose answers the test chooses.
type fake struct {
	*faultproxy.Proxy

	mu    sync.Mutex // guards what follows
	addr  string     // of the master
	runID string
	epoch int
	hangs bool   // takes connections and answers nothing
	mute  bool   // refuses PING
	heir  string // the new master of the failover that it leads; empty if it leads none
	blank bool   // does not know the master
	asked int
	pings int // the refused ones
	subs  int // subscriptions
}

func startFake(t *testing.T, addr string, epoch int) *fake {
	t.Helper()
	f := &fake{addr: addr, epoch: epoch}
	f.Proxy = fixture.Proxy(t, nil, f.answer)
	return f
}

func (f *fake) answer(c faultproxy.Command) faultproxy.Fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hangs {
		return faultproxy.LoseRequest
	}
	switch strings.ToUpper(c.Args[0]) {
	case "SENTINEL":
		f.asked++
		if f.blank || c.Args[2] != "mymaster" {
			return faultproxy.Answer(redis.Error("ERR No such master with that name"))
		}
		flags := "master"
		if f.heir != "" {
			flags = "s_down,o_down,master,disconnected,failover_in_progress"
			if strings.ToUpper(c.Args[1]) == "GET-MASTER-ADDR-BY-NAME" {
				host, port, _ := net.SplitHostPort(f.heir)
				return faultproxy.Answer(faultproxy.Bulks(host, port))
			}
		}
		host, port, _ := net.SplitHostPort(f.addr)
		return faultproxy.Answer(faultproxy.Bulks("name", "mymaster", "ip", host, "port", port, "runid", f.runID, "flags", flags, "config-epoch", strconv.Itoa(f.epoch)))
	case "SUBSCRIBE":
		f.subs++
		return faultproxy.Answer(append(faultproxy.Bulks("subscribe", c.Args[1]), int64(1)))
	case "PING":
		if f.mute {
			f.pings++
			return faultproxy.Answer(redis.Error("NOPERM User locker has no permissions to run the 'ping' command"))
		}
		return faultproxy.Answer(faultproxy.Bulks("pong", ""))
	}
	return faultproxy.Answer(redis.Error("ERR unknown command"))
}

// say makes the fake answer with another master from now on. told says whether
// it publishes +switch-master as well.
func (f *fake) say(addr, runID string, epoch int, told bool) {
	f.mu.Lock()
	f.addr, f.runID, f.epoch, f.blank = addr, runID, epoch, false
	f.mu.Unlock()
	if told {
		f.Publish(faultproxy.Bulks("message", "+switch-master", "mymaster 1.2.3.4 1 5.6.7.8 2"))
	}
}

// forget makes the fake answer that it does not know the master, until say.
func (f *fake) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blank = true
}

func (f *fake) hang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hangs = true
}

func (f *fake) questions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

func addrs(fakes ...*fake) []string {
	out := make([]string, len(fakes))
	for i, f := range fakes {
		out[i] = f.Addr()
	}
	return out
}
