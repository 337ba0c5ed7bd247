package renewal

// queue has the due groups of a lane as a binary heap, nearest end of trust first.
// The lane's lock guards it.
type queue []*group

// push adds g.
func (q *queue) push(g *group) {
	g.kind, g.place = queued, len(*q)
	*q = append(*q, g)
	q.up(g.place)
}

// remove takes g out.
func (q *queue) remove(g *group) {
	last := len(*q) - 1
	moved := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	if moved == g {
		return
	}
	(*q)[g.place], moved.place = moved, g.place
	q.fix(moved)
}

// fix corrects the place of g after a change of its trust.
func (q *queue) fix(g *group) {
	q.up(g.place)
	q.down(g.place)
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
