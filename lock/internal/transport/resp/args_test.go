package resp

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestArgumentsAreCutAndJoined: with any arguments, also arguments whose text is chosen later.
func TestArgumentsAreCutAndJoined(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want [2][]string
		var made [2]Args
		for i := range made {
			for range rapid.IntRange(1, 6).Draw(t, "n") {
				text := rapid.StringN(0, 30, -1).Draw(t, "text")
				want[i] = append(want[i], text)
				switch rapid.IntRange(0, 3).Draw(t, "how") {
				case 0:
					made[i] = made[i].AddAny(said{&text})
				case 1:
					made[i] = made[i].Add([]byte(text))
				case 2:
					made[i] = made[i].AddStrings([]string{text})
				default:
					made[i] = made[i].Add(text)
				}
			}
		}
		a, b := made[0], made[1]
		require.Equal(t, want[0][0], a.Now().First())
		n := rapid.IntRange(0, b.Len()).Draw(t, "cut")
		require.Equal(t, want[1][n:], append([]string{}, b.Behind(n).Strings()...))
		joined := a.Into(Args{}).Append(b.Behind(n))
		require.Equal(t, append(append([]string{}, want[0]...), want[1][n:]...), joined.Strings())
		require.Equal(t, len(joined.Strings()), joined.Len())
		require.Equal(t, want[0], a.Strings(), "what it was joined from is as it was")
		require.Equal(t, want[1], b.Strings())

		// A copy does not change when arguments are added to the original.
		old := ArgsOf("old")
		first, second := a.Into(old), a.Into(Args{})
		_ = first.Add("x")
		require.Equal(t, want[0], second.Strings())
		require.Equal(t, want[0], first.Strings())
	})
}

func TestAnArgumentOfAnotherTypeIsAFault(t *testing.T) {
	require.Panics(t, func() { ArgsOf(1.5) })
}

// TestAListNeedsOneAllocation: its arguments are written into one piece of memory.
func TestAListNeedsOneAllocation(t *testing.T) {
	name, n := "m", int64(123456)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		a := ArgsOf(name, n, 7, nil, name)
		if a.Len() != 5 {
			panic("not five")
		}
	}), 1.0)
}

func TestEmptiedArgumentsKeepLittle(t *testing.T) {
	require.NotZero(t, cap(ArgsOf(strings.Repeat("z", 1000)).Emptied().Text()))
	require.Zero(t, cap(ArgsOf(strings.Repeat("z", keptText)).Emptied().Text()))
}
