package resp

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestWhatWasReadAheadComesOutAsItCame, one answer at a time, in whatever order bytes come and are read.
func TestWhatWasReadAheadComesOutAsItCame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a readAhead
		var inside []byte // what redigo has not seen
		var ends []int    // the ends of whole answers in it
		fresh := true     // redigo has seen nothing of the first answer
		next := byte(0)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				if len(ends) > 0 {
					continue
				}
				room := a.room()
				require.Equal(t, len(inside) == readAheadSize, len(room) == 0)
				if len(inside) == 0 {
					require.Len(t, room, readAheadSize)
				}
				n := min(len(room), rapid.SampledFrom([]int{1, 5, 1000, readAheadSize}).Draw(t, "bytes"))
				for i := range n {
					room[i] = next
					inside = append(inside, next)
					next++
				}
				at := len(inside) - n
				for at < len(inside) { // all but the last piece are answers
					k := min(len(inside)-at, rapid.SampledFrom([]int{1, 3, 1000, readAheadSize}).Draw(t, "piece"))
					at += k
					ended := at < len(inside) || rapid.Bool().Draw(t, "ends")
					if a.noteRead(k, ended); ended {
						ends = append(ends, at)
					}
				}
			case 1:
				if len(inside) == 0 {
					continue
				}
				p := make([]byte, rapid.SampledFrom([]int{1, 4, 1000, 2 * readAheadSize}).Draw(t, "wanted"))
				most := len(inside)
				if len(ends) > 0 {
					most = ends[0]
				}
				n := a.readTo(p)
				require.Equal(t, min(len(p), most), n)
				require.Equal(t, inside[:n], p[:n])
				inside, ends, fresh = seen(inside, ends, n)
			case 2:
				if len(ends) == 0 {
					require.Nil(t, a.firstAnswer())
				} else if fresh {
					text := a.firstAnswer()
					require.Equal(t, inside[:ends[0]], text)
					a.drop(len(text))
					inside, ends, fresh = seen(inside, ends, len(text))
				}
			}
			require.Equal(t, len(inside) == 0, a.isEmpty())
			require.Equal(t, len(inside) == readAheadSize, a.isFull())
			require.Equal(t, len(ends) > 0, a.hasAnswer())
			require.LessOrEqual(t, len(a.ends), readAheadSize)
			if !a.hasAnswer() {
				require.Empty(t, a.ends, "they do not pile up")
			}
		}
	})
}

// seen removes the first n bytes of inside. fresh says that the next byte begins an answer.
func seen(inside []byte, ends []int, n int) (_ []byte, _ []int, fresh bool) {
	var left []int
	for _, end := range ends {
		if end > n {
			left = append(left, end-n)
		}
	}
	return inside[n:], left, len(left) < len(ends)
}
