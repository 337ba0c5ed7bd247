package orphans

import "time"

// Resent sends n orphans in a number of rounds, without an answer. It returns which of them were sent in
// each round, and how many are left. Orphans with odd numbers end after half of the rounds.
func Resent(n, rounds int) (sent [][]int, open int) {
	now := time.Unix(0, 0)
	o := &Orphans{open: n}
	numbers := make(map[*orphan]int)
	for i := range n {
		d := &orphan{until: now.Add(time.Duration(rounds) * time.Second)}
		if i%2 == 1 {
			d.until = now.Add(time.Duration(rounds) / 2 * time.Second)
		}
		numbers[d] = i
		o.toRetry = append(o.toRetry, d)
	}
	for range rounds {
		failed := o.toRetry
		o.toRetry = nil
		again := o.takeDueLocked(failed, now)
		var round []int
		for _, d := range again {
			round = append(round, numbers[d])
		}
		sent = append(sent, round)
		o.toRetry = append(o.toRetry, again...)
		now = now.Add(time.Second)
	}
	return sent, o.open
}
