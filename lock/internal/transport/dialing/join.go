package dialing

import (
	"errors"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// refusals has the beginnings of answers that say that a user may not log in, or may not ask.
var refusals = []string{"NOAUTH ", "WRONGPASS ", "NOPERM ", "ERR invalid password", "ERR invalid username-password", "ERR Client sent AUTH", "ERR AUTH "}

// Join is errors.Join for servers that were asked the same, such as the sentinels of a master. The
// answers of some servers say nothing about the servers that could not be asked. So errors.As finds
// a redis.Error in the result only if all servers have refused the login with the same answer.
func Join(errs ...error) error {
	if joined := errors.Join(errs...); joined == nil || isSameRefusal(errs) {
		return joined
	}
	hidden := slices.Clone(errs)
	for i, err := range errs {
		var reply redis.Error
		if errors.As(err, &reply) {
			hidden[i] = errors.New(err.Error())
		}
	}
	return errors.Join(hidden...)
}

// isSameRefusal reports whether all errors are the same refusal of the login.
func isSameRefusal(errs []error) bool {
	var first redis.Error
	for _, err := range errs {
		var reply redis.Error
		if !errors.As(err, &reply) || first != "" && reply != first {
			return false
		}
		first = reply
	}
	return strings.Contains(string(first), refusesLogin) ||
		slices.ContainsFunc(refusals, func(word string) bool { return strings.HasPrefix(string(first), word) })
}
