package lock_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/wheellock/wheellock/lock"
)

// Somebody else changes the password, which is in a file here. Each dial reads it anew. Locks that
// are held stay held when the password changes.
func ExampleEndpoint() {
	client, err := lock.Endpoint{
		URL: "rediss-sentinel://10.0.0.1:26379,10.0.0.2:26379/0?master=mymaster",
		Credentials: func(context.Context) (user, password string, err error) {
			text, err := os.ReadFile("/run/secrets/redis-password")
			return "orders", strings.TrimSpace(string(text)), err
		},
	}.Open(lock.Config{}) // does no I/O
	fmt.Println(err)
	fmt.Println(client.Close(context.Background()))
	// Output:
	// <nil>
	// <nil>
}
