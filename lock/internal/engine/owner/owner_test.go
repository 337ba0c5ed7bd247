package owner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
)

func TestAContextCarriesTheLastOwner(t *testing.T) {
	ctx := context.Background()
	of := func(ctx context.Context) owner.Owner {
		o, err := owner.FromContext(ctx)
		require.NoError(t, err)
		return o
	}
	require.Equal(t, owner.Nobody, of(ctx))
	a, b := owner.Owner{Text: "a"}, owner.Owner{Text: "client", ID: 7}
	ctx = owner.With(ctx, a, nil)
	require.Equal(t, a, of(ctx))
	require.Equal(t, b, of(owner.With(ctx, b, nil)))
	require.Equal(t, owner.Nobody, of(owner.With(ctx, owner.Nobody, nil)))
	bad := errors.New("bad")
	_, err := owner.FromContext(owner.With(ctx, a, bad))
	require.ErrorIs(t, err, bad)
	require.Equal(t, a, of(owner.With(owner.With(ctx, b, bad), a, nil)))
}

// ownerContext is a context whose Value method returns an owner, as the context of a Held does.
type ownerContext struct {
	context.Context
	owner owner.Owner
}

func (s ownerContext) Value(key any) any {
	if v := s.owner.Value(key); v != nil {
		return v
	}
	return s.Context.Value(key)
}

func TestAnOwnerIsTheValueOfItsContextAlone(t *testing.T) {
	a, b := owner.Owner{Text: "a"}, owner.Owner{Text: "client", ID: 7}
	type key struct{}
	ctx := context.WithValue(owner.With(context.Background(), a, nil), key{}, 1)
	o, err := owner.FromContext(ownerContext{ctx, b})
	require.NoError(t, err)
	require.Equal(t, b, o)
	o, err = owner.FromContext(ownerContext{ctx, owner.Nobody})
	require.NoError(t, err)
	require.Equal(t, a, o)
	require.Equal(t, 1, ownerContext{ctx, b}.Value(key{}))
}

func TestTheFieldOfAnOwnerIsItsNumberOrName(t *testing.T) {
	require.Equal(t, "x7", string(owner.Owner{Text: "client", ID: 7}.AppendTo([]byte("x"))))
	require.Equal(t, "xname", string(owner.Owner{Text: "name"}.AppendTo([]byte("x"))))
}
