package holders

import (
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/script"
)

// TokenCounter is what the keys of the library's fencing tokens begin with. They
// stay in Redis after a run.
const TokenCounter = "wheellock_token"

// IOTimeout is how long a command may take.
const IOTimeout = 5 * time.Second

// Eval runs a script by its SHA, or by its text if the server has forgotten it.
// args are the arguments of EVALSHA; the first place is left for the SHA.
func Eval(conn redis.Conn, timeout time.Duration, s *script.Script, args []any) (any, error) {
	args[0] = s.SHA()
	if s.Expires() {
		args = append(args, 0) // no time limit
	}
	reply, err := redis.DoWithTimeout(conn, timeout, "EVALSHA", args...)
	if isNoScript(err) {
		args[0] = s.Text()
		reply, err = redis.DoWithTimeout(conn, timeout, "EVAL", args...)
	}
	return reply, err
}

// isNoScript says whether the server does not know the script.
func isNoScript(err error) bool {
	var refused redis.Error
	return errors.As(err, &refused) && strings.HasPrefix(string(refused), "NOSCRIPT")
}
