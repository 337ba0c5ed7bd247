package redistest_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/redistest"
)

// envParent makes the test binary a program that starts a server, prints its
// process id, and waits to be killed.
const envParent = "REDISTEST_BE_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(envParent) != "" {
		beParent()
		return
	}
	goleak.VerifyTestMain(m)
}

func beParent() {
	srv, err := redistest.Start(context.Background(), redistest.Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(srv.PID())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}
