package lock

import (
	"context"
	"fmt"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
)

// WithOwner names the owner of the locks that are taken with the returned
// context. The name is any text of 1 to 200 bytes. Owners of the same name in two
// Clients are different owners. The name is a part of the hash field. A lock
// whose field is longer than 64 bytes costs 136 bytes more in Redis. For the
// first ten million acquisitions of a client, a field has room for a name of 19
// bytes, or of 13 bytes for a writer.
//
// Calls with the same owner re-enter each other's locks, so goroutines that share
// an owner do not exclude each other. The first call that uses a bad name returns
// an error.
func WithOwner(ctx context.Context, name string) context.Context {
	var err error
	if name == "" || len(name) > maxOwnerLen {
		err = fmt.Errorf("lock: the owner's name has %d bytes: it must have from 1 to %d", len(name), maxOwnerLen)
	}
	return owner.With(ctx, owner.Owner{Text: name}, err)
}

// WithoutOwner removes the owner from the context. A Lock with the returned
// context makes a new owner, and the new owner and the removed one exclude each
// other.
func WithoutOwner(ctx context.Context) context.Context {
	return owner.With(ctx, owner.Nobody, nil)
}
