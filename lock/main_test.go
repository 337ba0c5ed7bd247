package lock_test

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	// Parallel tests mostly wait, so eight may run at once. -parallel still wins.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	// The seed that a failure prints repeats it. A file would make later runs fail too.
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		panic(err)
	}
	os.Exit(shared.Main(m))
}
