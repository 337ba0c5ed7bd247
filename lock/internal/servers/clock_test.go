package servers_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/topology"
)

// TestAClockThatIsSetAgainAndAgainIsToldOfNowAndThen: each of a client's connections
// finds it out, and a virtual machine's clock may jump every minute.
func TestAClockThatIsSetAgainAndAgainIsToldOfNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fixture).build(t, false)
		f.follow()
		f.news <- topology.Layout{Servers: []topology.Server{{Name: "a", Instance: "1"}}}
		synctest.Wait() // the address is known
		s := f.router.Server("any")
		told := func() int { return strings.Count(f.logged(), "clock was set") }
		for range 60 {
			s.Timed(pipe.Clock{}, time.Hour)
			s.Timed(pipe.Clock{}, -time.Hour)
			time.Sleep(9 * time.Second)
		}
		require.Equal(t, 1, told())
		time.Sleep(time.Minute)
		s.Timed(pipe.Clock{}, time.Hour)
		require.Equal(t, 2, told())
		f.close()
	})
}
