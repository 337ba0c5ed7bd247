package dialing_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
)

// TestOnlyTheSameRefusalOfAllIsAnAnswer, if all servers were asked the same question.
func TestOnlyTheSameRefusalOfAllIsAnAnswer(t *testing.T) {
	at := func(addr string, err error) error { return fmt.Errorf("%s: %w", addr, err) }
	wrong, lost := redis.Error("WRONGPASS invalid username-password pair"), redis.Error("ERR No such master with that name")
	for name, c := range map[string]struct {
		errs   []error
		answer bool
	}{
		"one":       {[]error{wrong}, true},
		"all":       {[]error{at("a", wrong), at("b", wrong)}, true},
		"nested":    {[]error{dialing.Join(at("a", wrong), at("b", wrong)), at("c", wrong)}, true},
		"hidden":    {[]error{dialing.Public(redis.Error("ERR unknown command 'AUTH', with args beginning with: 'pw'"))}, true},
		"one down":  {[]error{at("a", wrong), at("b", io.EOF)}, false},
		"one inner": {[]error{dialing.Join(at("a", wrong), at("b", io.EOF)), at("c", wrong)}, false},
		"differ":    {[]error{at("a", wrong), at("b", redis.Error("NOAUTH Authentication required."))}, false},
		"unknown":   {[]error{lost}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := dialing.Join(c.errs...)
			var reply redis.Error
			require.Equal(t, c.answer, errors.As(err, &reply), err)
			require.Equal(t, errors.Join(c.errs...).Error(), err.Error())
		})
	}
	require.NoError(t, dialing.Join())
	require.ErrorIs(t, dialing.Join(lost, io.EOF), io.EOF)
}
