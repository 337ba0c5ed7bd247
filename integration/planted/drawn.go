package main

// drawn are some that -generate has drawn, each with a test that found it then.
var drawn = []bug{
	{
		name: "waitqueue-party-or-130", file: "lock/internal/waitqueue/party.go",
		breaks: "find: \"&&\" is \"||\"",
		before: "\tfor p != nil && p.owner != o {\n",
		after:  "\tfor p != nil || p.owner != o {\n",
		tests:  []tests{{"./lock/internal/waitqueue", "^TestRulesThatAreWrongAreFound$"}},
	},
	{
		name: "hold-attempt-if-201", file: "lock/internal/hold/attempt.go",
		breaks: "Reenter: \"h.kind != a.Kind\" is \"!(h.kind != a.Kind)\"",
		before: "\tif h.kind != a.Kind {\n",
		after:  "\tif !(h.kind != a.Kind) {\n",
		tests:  []tests{{"./lock/internal/hold", "^TestAHoldThatIsRenewedNoMoreIsHandedOnByAScript$"}},
	},
	{
		name: "locktable-queue-if-296", file: "lock/internal/locktable/queue.go",
		breaks: "goneLocked: \"r.Others > 0 && (!yields || r.Awaited)\" is \"!(r.Others > 0 && (!yields || r.Awaited))\"",
		before: "\t\t\tif r.Others > 0 && (!yields || r.Awaited) {\n",
		after:  "\t\t\tif !(r.Others > 0 && (!yields || r.Awaited)) {\n",
		tests:  []tests{{"./lock/internal/locktable", "^TestWhatALossLeavesIsTriedForByTheFirstWhoWaits$"}},
	},
	{
		name: "waitqueue-handover-if-23", file: "lock/internal/waitqueue/handover.go",
		breaks: "Leaving: \"n == nil || n.state == leaving\" is \"!(n == nil || n.state == leaving)\"",
		before: "\tif n == nil || n.state == leaving {\n",
		after:  "\tif !(n == nil || n.state == leaving) {\n",
		tests:  []tests{{"./lock/internal/waitqueue", "^TestRulesThatAreWrongAreFound$"}},
	},
	{
		name: "waitqueue-probe-set-291", file: "lock/internal/waitqueue/probe.go",
		breaks: "forget: \"p.mark.number = p.marks\" is \"\"",
		before: "\tp.mark.number = p.marks\n",
		after:  "\t\n",
		tests:  []tests{{"./lock/internal/waitqueue", "^TestThePropertiesHold$"}},
	},
	{
		name: "waitqueue-line-call-212", file: "lock/internal/waitqueue/line.go",
		breaks: "Began: \"l.lookFirsts(p)\" is \"\"",
		before: "\t\t\tp.unlisted = c\n\t\t}\n\t\tl.advance(p)\n\t\tl.lookFirsts(p)\n\t}\n\tl.look(c)\n\treturn l.step\n",
		after:  "\t\t\tp.unlisted = c\n\t\t}\n\t\tl.advance(p)\n\t\t\n\t}\n\tl.look(c)\n\treturn l.step\n",
		tests:  []tests{{"./lock/internal/waitqueue", "^TestRulesThatAreWrongAreFound$"}},
	},
	{
		name: "locktable-table-call-195", file: "lock/internal/locktable/table.go",
		breaks: "Adopt: \"s.addLocked(h)\" is \"\"",
		before: "\ts.addLocked(h)\n",
		after:  "\t\n",
		tests:  []tests{{"./lock/internal/locktable", "^TestCallsGoOnWithTheHoldsOfTheirClient$"}},
	},
	{
		name: "waitqueue-strangers-set-135", file: "lock/internal/waitqueue/strangers.go",
		breaks: "release: \"s.state = freed\" is \"\"",
		before: "\t\ts.state = freed\n",
		after:  "\t\t\n",
		tests:  []tests{{"./lock/internal/waitqueue", "^TestAStrangerIsLetIn$"}},
	},
	{
		name: "waitqueue-party-if-165", file: "lock/internal/waitqueue/party.go",
		breaks: "leave: \"p.members > 0\" is \"!(p.members > 0)\"",
		before: "\tif p.members--; p.members > 0 {\n",
		after:  "\tif p.members--; !(p.members > 0) {\n",
		tests:  []tests{{"./lock/internal/waitqueue", "^TestRulesThatAreWrongAreFound$"}},
	},
	{
		name: "orphans-orphans-call-411", file: "lock/internal/orphans/orphans.go",
		breaks: "Close: \"o.wg.Done()\" is \"\"",
		before: "\t\to.wg.Done()\n",
		after:  "\t\t\n",
		tests:  []tests{{"./lock/internal/orphans", "^TestAnUnansweredReleaseIsSentAgainUntilTheLeaseIsOver$"}},
	},
	{
		name: "locktable-callers-call-36", file: "lock/internal/locktable/callers.go",
		breaks: "unwatchLocked: \"delete(s.callers, k)\" is \"\"",
		before: "\t\tdelete(s.callers, k)\n",
		after:  "\t\t\n",
		tests:  []tests{{"./lock/internal/locktable", "^TestWhoWatchesAnOwnerIsWokenByItsHolds$"}},
	},
	{
		name: "hold-turn-call-100", file: "lock/internal/hold/turn.go",
		breaks: "noteOpen: \"h.set(unsure, true)\" is \"\"",
		before: "\th.set(unsure, true)\n",
		after:  "\t\n",
		tests:  []tests{{"./lock/internal/hold", "^TestAnAnswerThatIsLostKeepsItsFieldFromTheNextHolder$"}},
	},
}
