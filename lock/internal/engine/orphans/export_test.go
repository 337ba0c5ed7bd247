package orphans

import "time"

// Resent sends n orphans in a number of rounds, without an answer. It returns which of them were sent in
// each round, and how many are left. Orphans with odd numbers end after half of the rounds.
func Resent(n, rounds int) (sent [][]int, open int) {
	now := time.Unix(0, 0)
	o := &Orphans{awaitedCount: n}
	numbers := make(map[*orphan]int)
	for i := range n {
		d := &orphan{until: now.Add(time.Duration(rounds) * time.Second)}
		if i%2 == 1 {
			d.until = now.Add(time.Duration(rounds) / 2 * time.Second)
		}
		numbers[d] = i
		o.failed = append(o.failed, d)
	}
	for range rounds {
		failed := o.failed
		o.failed = nil
		again := o.takeDueLocked(failed, now)
		var round []int
		for _, d := range again {
			round = append(round, numbers[d])
		}
		sent = append(sent, round)
		o.failed = append(o.failed, again...)
		now = now.Add(time.Second)
	}
	return sent, o.awaitedCount
}
