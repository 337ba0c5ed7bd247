package lockgoredis

import (
	"context"

	"github.com/redis/go-redis/v9/auth"
)

// NewSubscription returns what the dials of one Client call.
func NewSubscription(p auth.StreamingCredentialsProvider) func(ctx context.Context) (user, password string, err error) {
	return (&subscription{provider: p}).credentials
}

// HostOf returns the address in the URL of an Endpoint.
var HostOf = hostOf
