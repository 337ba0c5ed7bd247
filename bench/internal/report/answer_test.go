package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnswerIsOneSentenceWithFiguresOfTheRun(t *testing.T) {
	overloaded := soundRow("afterfunc", 100_000, 0, 0)
	overloaded.Missed, overloaded.Lost = NumberOf(46_677), NumberOf(44_398)
	few := func(driver string, us float64) Row {
		r := soundRow(driver, 20, us, 1)
		r.Renewals = NumberOf(60)
		return r
	}
	unknown := soundRow("wheel", 10, 1, 1)
	unknown.ClientCPU = Number{}
	for _, c := range []struct {
		name string
		rows []Row
		says string
	}{
		{"both ways", []Row{
			soundRow("afterfunc", 10, 20, 1), soundRow("wheel", 10, 15, 1),
			soundRow("afterfunc-batch", 10, 4, 1), soundRow("wheel-batch", 10, 1, 1), soundRow("library", 10, 1, 1),
		}, "With 10 locks, one timing wheel instead of one time.AfterFunc per lock takes 25\u00a0% less client CPU where each renewal is a round trip (15.00\u00a0us instead of 20.00\u00a0us per renewal)," +
			" and 75\u00a0% less client CPU where renewals share round trips (1.00\u00a0us instead of 4.00\u00a0us per renewal)."},
		{"more", []Row{soundRow("afterfunc", 10, 10, 1), soundRow("wheel", 10, 15, 1)}, "takes 50\u00a0% more client CPU"},
		{"noise", []Row{soundRow("afterfunc", 10, 10, 1), soundRow("wheel", 10, 9.8, 1)}, "takes as much client CPU, as far as one run can tell,"},
		{"other numbers", []Row{
			soundRow("afterfunc", 10, 20, 1), soundRow("wheel", 10, 15, 1),
			soundRow("afterfunc-batch", 20, 4, 1), soundRow("wheel-batch", 20, 1, 1),
		}, "(1.00\u00a0us instead of 4.00\u00a0us per renewal) with 20 locks."},
		{"an overload", []Row{
			soundRow("afterfunc", 10, 20, 1), soundRow("wheel", 10, 15, 1), overloaded, soundRow("wheel", 100_000, 9, 1), soundRow("sweep", 100_000, 9, 1),
		}, "(15.00\u00a0us instead of 20.00\u00a0us per renewal)."},
		{"only an overload", []Row{overloaded, soundRow("wheel", 100_000, 9, 1)}, "because a row that it needs did not keep its locks"},
		{"timer and batch at once", []Row{soundRow("afterfunc", 10, 20, 1), soundRow("wheel-batch", 10, 1, 1)}, "one timing wheel and batches instead of"},
		{"no pair", []Row{soundRow("sweep", 10, 20, 1), soundRow("wheel-batch", 10, 1, 1)}, "does not say what a wheel saves"},
		{"no CPU", []Row{soundRow("afterfunc", 10, 20, 1), unknown}, "does not say what a wheel saves"},
		{"too few", []Row{few("afterfunc", 900), few("wheel", 300), few("afterfunc-batch", 500), few("wheel-batch", 400)}, "With 20 locks this run cannot tell how much CPU a wheel saves, because a row has only 60 renewals and needs 1,000"},
		{"too few of one", []Row{few("afterfunc", 900), soundRow("wheel", 20, 300, 1)}, "cannot tell"},
		{"too few for a wheel and batches", []Row{few("afterfunc", 900), few("wheel-batch", 300), overloaded}, "With 20 locks this run cannot tell"},
		{
			"too few one way",
			[]Row{few("afterfunc", 900), few("wheel", 300), soundRow("afterfunc-batch", 20, 4, 1), soundRow("wheel-batch", 20, 1, 1)},
			"With 20 locks, one timing wheel instead of one time.AfterFunc per lock takes 75\u00a0% less client CPU where renewals share round trips (1.00\u00a0us instead of 4.00\u00a0us per renewal).",
		},
		{"nothing", nil, "no row was measured"},
	} {
		got := Answer(c.rows)
		require.Contains(t, got, c.says, c.name)
		require.Equal(t, 1, strings.Count(got+" ", ". "), "%s: one sentence: %s", c.name, got)
		require.NotContains(t, got, "n/a")
	}
}

func TestEveryDriverIsExplained(t *testing.T) {
	for _, d := range Drivers() {
		require.NotEmpty(t, Describe(d))
	}
}

func TestRemarksSayHowEvenTheMastersLoadIs(t *testing.T) {
	r := soundRow("library", 10, 1, 1)
	r.Masters = []Master{{"a:1", NumberOf(30), NumberOf(1)}, {"b:1", NumberOf(50), NumberOf(2)}, {"c:1", NumberOf(20), NumberOf(1)}}
	require.Contains(t, Remarks([]Row{r})[0],
		"Each of the 3 masters had (library, 10 locks; even would be 33.3\u00a0%): of the renewals from 20.0\u00a0% to 50.0\u00a0%; of Redis' CPU from 25.0\u00a0% to 50.0\u00a0%.")
	r.Masters[1].CPU = Number{}
	require.Contains(t, Remarks([]Row{r})[0], "of Redis' CPU n/a")
}
