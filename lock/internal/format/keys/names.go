package keys

import (
	"errors"
	"fmt"
	"strings"
)

// MaxLen is the longest name of a lock, in bytes.
const MaxLen = 1 << 16

// Check refuses a name that a lock must not have. These are among others the keys of other
// locks and the counters of tokens. So no two names that Check accepts share a key. All
// keys except the lock's own have a brace, so Check accepts nearly all names without one.
func Check(name string) error {
	switch {
	case name == "":
		return errors.New("lock: the name is empty: give the lock a name")
	case len(name) > MaxLen:
		return fmt.Errorf("lock: the name has %d bytes: at most %d", len(name), MaxLen)
	case isCounter(name):
		return fmt.Errorf("lock: the name %.100q is that of a counter of fencing tokens: use one that does not end in %q", name, Counter)
	}
	if strings.IndexByte(name, '{') < 0 {
		return nil
	}
	for _, word := range []string{fencedCounter, fairQueue, fairScores, unlockLatch} {
		if strings.HasPrefix(name, word+":") {
			return fmt.Errorf("lock: the name %.100q is that of a key of another lock: use one that does not begin with %q", name, word+":")
		}
	}
	if end := endOfKey(name); end != "" {
		return fmt.Errorf("lock: the name %.100q is that of a key of another lock: use one that does not end in %q", name, end)
	}
	inner, ok := strings.CutSuffix(name[1:], "}")
	if ok && name[0] == '{' && inner != "" && strings.IndexByte(inner, '{') < 0 { // Redisson writes the keys of inner so
		return fmt.Errorf("lock: the name %.100q would share keys with %.100q: leave the braces out, or put something before or after them", name, inner)
	}
	return nil
}

// endOfKey returns the end of a name with a brace, if a key of another name ends with it.
// Otherwise it returns "".
func endOfKey(name string) string {
	for _, word := range []string{permitsTaken, fairSigns, polls, rwWriters, result} {
		if strings.HasSuffix(name, ":"+word) {
			return ":" + word
		}
	}
	if before := strings.TrimRight(name, digits); before != name && strings.HasSuffix(before, rwReader) {
		return name[len(before)-len(rwReader):]
	}
	return ""
}

// isCounter reports whether key is a counter of any prefix.
func isCounter(key string) bool {
	if strings.HasSuffix(key, Counter) {
		return true
	}
	i := strings.LastIndexByte(key, '{')
	if i < 0 || !strings.HasSuffix(key, "}") {
		return false
	}
	before, tag := key[:i], key[i+1:len(key)-1]
	return strings.HasSuffix(before, Counter+":") && tag != "" && strings.Trim(tag, digits) == ""
}

const digits = "0123456789"

// CheckPrefix refuses a prefix with a brace that does not decide the slot of all its names,
// because these names would have no counter in common.
func CheckPrefix(prefix string) error {
	if strings.ContainsAny(prefix, "{}") && (strings.IndexByte(prefix, '{') < 0 || CheckSlot(prefix) != nil) {
		return fmt.Errorf("lock: Config.KeyPrefix %.100q has a brace and no hash tag: write the tag as in \"{app}:\", or leave the braces out", prefix)
	}
	return nil
}
