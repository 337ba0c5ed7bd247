package run

import (
	"flag"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// signalEnv has the number of the signal that a row's process sends to itself.
const signalEnv = "WHEELLOCK_BENCH_SIGNAL"

// A row's process is the test's program. It is a row as it should be, or a row that
// ends badly.
func TestMain(m *testing.M) {
	switch os.Getenv(RowEnv) {
	case "":
	case "die":
		panic("this row dies")
	case "hang":
		_, _ = os.Stdout.WriteString(`{"phase":"hold"}` + "\n")
		time.Sleep(time.Hour)
	case "signal":
		n, _ := strconv.Atoi(os.Getenv(signalEnv))
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Signal(syscall.Signal(n))
		time.Sleep(time.Hour)
	case "babble":
		_, _ = os.Stdout.WriteString("hello\n")
		os.Exit(0)
	default:
		os.Exit(RowMain(os.Stdin, os.Stdout))
	}
	// They wait far more than they work.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
