package lock_test

import (
	"context"
	"fmt"

	"github.com/wheellock/wheellock/lock"
)

// A transfer needs both accounts. The order in which they are named does not
// matter: a transfer the other way at the same time does not block it for ever.
func ExampleMultiLock() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()

	both := lock.NewMultiLock(client.Mutex("account:7"), client.Mutex("account:3"))
	err := both.Do(ctx, func(ctx context.Context) error { // ctx ends if one of them is lost
		_, err := client.Mutex("account:3").TryLock(context.Background())
		fmt.Println("another:", err != nil)
		return nil
	})
	fmt.Println(err)
	// Output:
	// another: true
	// <nil>
}
