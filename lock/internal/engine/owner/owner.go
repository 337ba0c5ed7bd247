// Package owner identifies the holder of a lock. A context carries the owner, because Go has no
// thread id.
package owner

import (
	"context"
	"strconv"
)

// Owner is the holder of a lock. A fresh owner belongs to one client. A named owner has the
// same text in every client, but is a different owner in each. The zero Owner means that there is
// none.
type Owner struct {
	Text string // the name, or for a fresh owner the client's id
	ID   uint64 // 0 for a named owner
}

var Nobody = Owner{} // the zero Owner

// AppendTo appends the owner's part of a hash field.
func (o Owner) AppendTo(b []byte) []byte {
	if o.ID == 0 {
		return append(b, o.Text...)
	}
	return strconv.AppendUint(b, o.ID, 10)
}

// Value returns the value for key of a context that carries o. It returns nil if key is not
// the key of the owner, or if o is the zero Owner.
func (o Owner) Value(key any) any {
	if key != (contextKey{}) || o == Nobody {
		return nil
	}
	return carried{owner: o}
}

// carried is a context's value: an owner, or the reason why there is none.
type carried struct {
	owner Owner
	err   error
}

type contextKey struct{}

// With returns a context that carries o. If err is not nil, the context carries err as the
// reason why it has no owner. The zero Owner hides the owner that ctx carries.
func With(ctx context.Context, o Owner, err error) context.Context {
	return context.WithValue(ctx, contextKey{}, carried{owner: o, err: err})
}

// FromContext returns the owner that ctx carries, or the zero Owner if ctx carries none.
func FromContext(ctx context.Context) (Owner, error) {
	v, _ := ctx.Value(contextKey{}).(carried)
	if v.err != nil {
		return Nobody, v.err
	}
	return v.owner, nil
}
