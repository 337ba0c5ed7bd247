// Package owner is who holds a lock, and how a context carries that: Go has no thread id.
package owner

import (
	"context"
	"strconv"
)

// Owner is the holder of a lock. A fresh one belongs to one client. A named one has the
// same text in every client, but is another owner in each. The zero Owner is nobody.
type Owner struct {
	Text string // the name, or of a fresh owner the client's id
	ID   uint64 // 0 for a named owner
}

// Nobody is the zero Owner.
var Nobody = Owner{}

// AppendTo appends the owner's part of a hash field.
func (o Owner) AppendTo(b []byte) []byte {
	if o.ID == 0 {
		return append(b, o.Text...)
	}
	return strconv.AppendUint(b, o.ID, 10)
}

// Value is what a context that carries o returns for key: nil if it is not asked for its
// owner, or if o is nobody.
func (o Owner) Value(key any) any {
	if key != (contextKey{}) || o == Nobody {
		return nil
	}
	return carried{owner: o}
}

// carried is a context's value: an owner, or why there is none.
type carried struct {
	owner Owner
	err   error
}

type contextKey struct{}

// With returns a context that carries o, or, if err is not nil, why it carries none. One that
// carries Nobody hides the owner that ctx carries.
func With(ctx context.Context, o Owner, err error) context.Context {
	return context.WithValue(ctx, contextKey{}, carried{owner: o, err: err})
}

// Of returns the owner that ctx carries. It is Nobody if ctx carries none.
func Of(ctx context.Context) (Owner, error) {
	v, _ := ctx.Value(contextKey{}).(carried)
	if v.err != nil {
		return Nobody, v.err
	}
	return v.owner, nil
}
