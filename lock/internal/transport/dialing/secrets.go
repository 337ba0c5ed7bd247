package dialing

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// shownAnswers has the answers to AUTH and HELLO that may be shown, because they do not repeat the
// request.
var shownAnswers = []string{
	"NOAUTH Authentication required",
	"NOAUTH HELLO must be called",
	"WRONGPASS invalid username-password pair or user is disabled.",
	"WRONGPASS invalid username-password pair",
	"ERR invalid password",
	"ERR invalid username-password pair",
	"ERR Client sent AUTH, but no password is set",
	"ERR AUTH <password> called without any password configured",
	"ERR wrong number of arguments for 'auth' command",
	"NOPROTO ",
}

// echoes has the words, in lower case, that show that an answer may repeat the request.
var echoes = []string{"auth", "hello", "wrongpass", "unknown", "unsupported", "unrecognized", "not supported", "with args"}

// Public returns the error of a dial without secrets, so that no password comes into logs and
// errors. It replaces an answer to AUTH or HELLO that repeats the request, such as "unknown
// command 'AUTH', with args beginning with", and an error that repeats a URL. In other texts it
// replaces each of secrets. Empty secrets do not count.
func Public(err error, secrets ...string) error {
	if err == nil {
		return nil
	}
	var unread *url.Error
	if errors.As(err, &unread) && unread.Op == "parse" {
		return errors.New("the URL of the dial function cannot be read. It is not shown, because it may have a password: " +
			"percent-encode all but letters, digits and -._~ of user and password")
	}
	for _, secret := range secrets {
		if secret != "" && strings.Contains(err.Error(), secret) {
			err = hideSecret(secret, err)
		}
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return err
	}
	for _, known := range shownAnswers {
		if rest, ok := strings.CutPrefix(string(reply), known); ok && !strings.ContainsAny(rest, "'`\"") {
			return err
		}
	}
	said := strings.ToLower(string(reply))
	for _, word := range echoes {
		if strings.Contains(said, word) {
			return hideReply(reply)
		}
	}
	return err
}

// CheckAddr returns an error for an address that is not host:port. The error does not repeat a
// URL, because the URL may have a password.
func CheckAddr(addr string) error {
	if strings.ContainsAny(addr, "@/?") {
		return errors.New("an address is a URL, or a part of one: write host:port, and give user and password as dial options")
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return fmt.Errorf("the address %q must be host:port: %w", addr, err)
	}
	return nil
}

// refusesLogin is the beginning of the text that replaces an answer, behind its code.
const refusesLogin = " the server refuses to log in. "

// hideSecret returns err with stars in place of secret. A Redis error stays one, with its code.
func hideSecret(secret string, err error) error {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return &starred{strings.ReplaceAll(err.Error(), secret, "***"), err}
	}
	code := codeOf(reply)
	rest, _ := strings.CutPrefix(string(reply), code)
	return redis.Error(code + strings.ReplaceAll(rest, secret, "***"))
}

// starred is an error whose secret was replaced. It does not unwrap to the error with the secret.
type starred struct {
	text  string
	cause error
}

var _ net.Error = (*starred)(nil)

func (s *starred) Error() string        { return s.text }
func (s *starred) Is(target error) bool { return errors.Is(s.cause, target) }

// Timeout implements net.Error.
func (s *starred) Timeout() bool {
	var slow net.Error
	return errors.As(s.cause, &slow) && slow.Timeout()
}

// Temporary implements net.Error.
func (s *starred) Temporary() bool { return false }

// codeOf returns the first word of an answer if that is a code, and ERR otherwise.
func codeOf(reply redis.Error) string {
	code, _, _ := strings.Cut(string(reply), " ")
	if strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || len(code) > 16 {
		return "ERR"
	}
	return code
}

// hideReply returns an answer in place of reply, because the text of reply may have a password. Its
// code stays.
func hideReply(reply redis.Error) error {
	return redis.Error(codeOf(reply) + refusesLogin + "Its answer is not shown, because it may repeat the password: " +
		"check that the server knows AUTH, or leave user and password out if it needs none")
}
