package wire

import "github.com/wheellock/wheellock/lock/script"

// Guard runs a command if a hold has its lock.
func Guard(name, field, command string, keys []string, more []any) Call {
	all := list(name).AddStrings(keys).Add(field, command).AddAny(more...)
	return Call{Script: script.Guard, Keys: 1 + len(keys), Args: all}
}

// ReadGuard reads the answer of guard: the command's, unless the hold was gone.
func ReadGuard(reply any) (answer any, there, ok bool) {
	values, _ := reply.([]any)
	if len(values) == 0 {
		return nil, false, false
	}
	n, ok := values[0].(int64)
	if !ok || n != 0 && n != 1 {
		return nil, false, false
	}
	if len(values) > 1 {
		answer = values[1]
	}
	return answer, n == 1, true // a nil answer ends a Lua table
}
