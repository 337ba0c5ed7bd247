package dialing

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// told are the answers to AUTH and HELLO that say what is wrong and repeat nothing of the
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

// echoes are words of answers that repeat the request, in lower case.
var echoes = []string{"auth", "hello", "wrongpass", "unknown", "unsupported", "unrecognized", "not supported", "with args"}

// Public returns what a dial has failed with, without the answer to AUTH or HELLO if that
// repeats what it was sent, as "unknown command 'AUTH', with args beginning with" does: it
// would stand in logs and errors, with the password. secrets, of those that are not empty,
// must not be in the text either.
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

// CheckAddr refuses an address that is not host:port. A URL, which may have a password in
// it, is not repeated.
func CheckAddr(addr string) error {
	if strings.ContainsAny(addr, "@/?") {
		return errors.New("an address is a URL, or a part of one: write host:port, and give user and password as dial options")
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return fmt.Errorf("the address %q must be host:port: %w", addr, err)
	}
	return nil
}

// hidden is an error in the place of err, whose text may have a password in it. The kind of
// the answer stays.
func hidden(err error) error {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return errors.New("the connection was not made; why is not shown, because the password is in the text")
	}
	code, _, _ := strings.Cut(string(reply), " ")
	if strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || len(code) > 16 {
		code = "ERR"
	}
	return redis.Error(code + " the server refuses to log in. Its answer is not shown, because it may repeat the password: " +
		"check that it knows AUTH, or leave user and password out if it asks for none")
}
