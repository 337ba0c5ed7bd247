package renewal

// queue has the due groups of a lane as a binary heap, nearest end of trust first.
// The lane's lock guards it.
type queue []*group

// push adds c.
func (q *queue) push(c *group) {
	c.kind, c.place = queued, len(*q)
	*q = append(*q, c)
	q.up(c.place)
}

// remove takes c out.
func (q *queue) remove(c *group) {
	last := len(*q) - 1
	moved := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	if moved == c {
		return
	}
	(*q)[c.place], moved.place = moved, c.place
	q.fix(moved)
}

// fix corrects the place of c after a change of its trust.
func (q *queue) fix(c *group) {
	q.up(c.place)
	q.down(c.place)
}

func (q *queue) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if (*q)[parent].trust <= (*q)[i].trust {
			return
		}
		q.swap(i, parent)
		i = parent
	}
}

func (q *queue) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(*q); child++ {
			if (*q)[child].trust < (*q)[least].trust {
				least = child
			}
		}
		if least == i {
			return
		}
		q.swap(i, least)
		i = least
	}
}

func (q *queue) swap(i, j int) {
	(*q)[i], (*q)[j] = (*q)[j], (*q)[i]
	(*q)[i].place, (*q)[j].place = i, j
}
