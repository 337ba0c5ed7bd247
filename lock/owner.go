package lock

import (
	"context"
	"fmt"
	"strconv"
)

// owner is the holder of a lock. Go has no thread id, so the owner travels in
// the context. A fresh owner belongs to one client. A named owner has the same
// text in every client, but is another owner in each.
type owner struct {
	text string // the name, or of a fresh owner the client's id
	id   uint64 // 0 for a named owner
}

// appendTo appends the owner's part of a hash field.
func (o owner) appendTo(b []byte) []byte {
	if o.id == 0 {
		return append(b, o.text...)
	}
	return strconv.AppendUint(b, o.id, 10)
}

// ownerOrError is the context's value: an owner, or why there is none.
type ownerOrError struct {
	owner owner
	err   error
}

type ownerKey struct{}

// WithOwner names the owner of the locks that are taken with the returned
// context. The name is any text of 1 to 200 bytes and is known only within one
// Client. Calls with the same owner re-enter each other's locks, so goroutines
// that share an owner do not exclude each other. The first call that uses a bad
// name returns an error.
func WithOwner(ctx context.Context, name string) context.Context {
	v := ownerOrError{owner: owner{text: name}}
	if name == "" || len(name) > maxOwnerLen {
		v.err = fmt.Errorf("lock: the owner's name has %d bytes: it must have from 1 to %d", len(name), maxOwnerLen)
	}
	return context.WithValue(ctx, ownerKey{}, v)
}

// WithoutOwner removes the owner from the context. Locks that are taken with
// the returned context get a new owner, so they exclude those of the owner that
// was removed.
func WithoutOwner(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownerKey{}, ownerOrError{})
}

// ownerOf returns the context's owner, or a fresh one.
func (c *Client) ownerOf(ctx context.Context) (owner, error) {
	v, _ := ctx.Value(ownerKey{}).(ownerOrError)
	if v.err != nil {
		return owner{}, v.err
	}
	if v.owner != (owner{}) {
		return v.owner, nil
	}
	return owner{text: c.id, id: c.owners.Add(1)}, nil
}

// carriesOwner reports whether ownerOf returns the context's owner.
func carriesOwner(ctx context.Context) bool {
	v, _ := ctx.Value(ownerKey{}).(ownerOrError)
	return v.owner != (owner{})
}
