package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// printable returns a text from Redis as one line without control characters.
func printable(text string) string {
	odd := func(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }
	if strings.ContainsFunc(text, odd) {
		return strconv.Quote(text)
	}
	return text
}

// quote quotes a text that is not UTF-8, because JSON would change it. It sets *quoted then.
func quote(text *string, quoted *bool) {
	if !utf8.ValidString(*text) {
		*text, *quoted = strconv.Quote(*text), true
	}
}

// print writes x to the standard output.
func (p *program) print(x any) error {
	if _, err := fmt.Fprint(p.out, x); err != nil {
		return &statusError{statusUnwritten, fmt.Sprintf("cannot write to the standard output: %v", err)}
	}
	return nil
}

// printJSON prints x, which has these holders, without control characters.
func (p *program) printJSON(x any, holders []holder, indent string) error {
	for i := range holders {
		quote(&holders[i].ID, &holders[i].Quoted)
	}
	var text []byte
	var err error
	if indent == "" {
		text, err = json.Marshal(x)
	} else {
		text, err = json.MarshalIndent(x, "", indent)
	}
	if err != nil {
		return err
	}
	return p.print(escaped(text) + "\n")
}

// escaped returns JSON with an escape for each character that is not printable. encoding/json
// escapes only the control characters of ASCII, and not DEL.
func escaped(text []byte) string {
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case r < 0x7f || strconv.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
