package waitqueue

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The seed that a failure prints repeats it. A file would make later runs fail too.
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
