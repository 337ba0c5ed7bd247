package dialing

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// told has the answers to AUTH and HELLO that may be shown, because they do not repeat the
// request.
var told = []string{
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

// echoes has words of answers that may repeat the request, in lower case.
var echoes = []string{"auth", "hello", "wrongpass", "unknown", "unsupported", "unrecognized", "not supported", "with args"}

// Public returns the error of a dial without secrets, so that no password comes into logs and
// errors. It replaces an answer to AUTH or HELLO that repeats the request, such as "unknown
// command 'AUTH', with args beginning with". It also replaces a text that contains one of
// secrets. Empty secrets do not count.
func Public(err error, secrets ...string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, secret := range secrets {
		if secret != "" && strings.Contains(text, secret) {
			return hidden(err)
		}
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return err
	}
	for _, known := range told {
		if rest, ok := strings.CutPrefix(string(reply), known); ok && !strings.ContainsAny(rest, "'`\"") {
			return err
		}
	}
	said := strings.ToLower(string(reply))
	for _, word := range echoes {
		if strings.Contains(said, word) {
			return hidden(err)
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

// refusesLogin begins the text of a hidden answer, behind its code.
const refusesLogin = " the server refuses to log in. "

// hidden returns an error in place of err, because the text of err may have a password. The code
// of a Redis error stays.
func hidden(err error) error {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return errors.New("the connection was not made: the cause is not shown, because its text has the password")
	}
	code, _, _ := strings.Cut(string(reply), " ")
	if strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || len(code) > 16 {
		code = "ERR"
	}
	return redis.Error(code + refusesLogin + "Its answer is not shown, because it may repeat the password: " +
		"check that the server knows AUTH, or leave user and password out if it needs none")
}
