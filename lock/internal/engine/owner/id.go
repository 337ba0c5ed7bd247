package owner

import (
	crand "crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
)

// The id of a client begins the hash fields of its holds, so it identifies the holder of a lock:
//
//	<random>@<label>
//
// An id always has 36 bytes, like a UUID. The label has at most 19 bytes, and the mark @ has one.
// The rest is random, with at least 16 characters of 6 bits, so 96 bits. An id without a label is
// a UUID. Neither part has an @, a colon or a brace.
const (
	IDLen     = 36
	maxLabel  = 19
	labelMark = "@"
)

// NewID returns the id of a new client with that label. If a label is too long, the id has its
// last characters, because these tell machines and pods apart. Characters other than letters,
// digits and ._- become underscores.
func NewID(label string) string {
	label = cleanLabel(label)
	if label == "" {
		return UUID()
	}
	return base64.RawURLEncoding.EncodeToString(random())[:IDLen-len(labelMark+label)] + labelMark + label
}

// UUID returns a random UUID.
func UUID() string {
	b := random()
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// random returns enough random bytes for an id.
func random() []byte {
	var b [IDLen * 6 / 8]byte
	crand.Read(b[:]) // never fails
	return b[:]
}

// Label returns the label of an id, or of the id at the beginning of a hash field. It returns ""
// if there is no label, or if NewID could not return the id. Such a text may have any content.
func Label(field string) string {
	if len(field) < IDLen || len(field) > IDLen && field[IDLen] != ':' {
		return ""
	}
	random, label, _ := strings.Cut(field[:IDLen], labelMark)
	if len(label) > maxLabel || strings.ContainsFunc(random+label, isForbidden) {
		return ""
	}
	return label
}

// cleanLabel returns a label as it is written in an id.
func cleanLabel(label string) string {
	label = strings.Map(func(r rune) rune {
		if isForbidden(r) {
			return '_'
		}
		return r
	}, label)
	return label[max(0, len(label)-maxLabel):]
}

// isForbidden reports whether r must not be in an id.
func isForbidden(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
}
