package simulation_test

import (
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	asItIs     sync.Once
	asItIsPath string // of the program that theProduct builds
	asItIsDir  string
)

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(asItIsDir)
	os.Exit(code)
}

// theProduct returns the path of the workers' program with the product, without a planted bug. It is
// built once.
func theProduct(t *testing.T) string {
	t.Helper()
	asItIs.Do(func() {
		var err error
		asItIsDir, err = os.MkdirTemp("", "simulation")
		require.NoError(t, err)
		asItIsPath = build(t, asItIsDir)
	})
	require.NotEmpty(t, asItIsPath, "it could not be built")
	return asItIsPath
}

// playAgain simulates a small world that broke a promise once.
func playAgain(t *testing.T, text string) {
	t.Helper()
	if testing.Short() {
		t.Skip("the product is built anew for it")
	}
	s, err := read(text)
	require.NoError(t, err)
	r := work(t.Context(), t, theProduct(t), order{Scenario: &s})
	require.False(t, r.found, "%s", r.said)
}

// TestACloseJustAfterAnAttemptDoesNotMakeARedLockSpin: the closed channel of Close ended one
// sleep of the waiter after the other.
func TestACloseJustAfterAnAttemptDoesNotMakeARedLockSpin(t *testing.T) {
	playAgain(t, `{"Seed":1795586041287000704,"Small":true,"Plan":{"Seed":1795586041287000704,"Priorities":true},"Servers":3,
		"Clients":[{"Connections":2,"ReleaseOnClose":true},{"Connections":2,"ReleaseOnClose":true}],"Objects":["RedLock"],
		"Actors":[{"Client":0,"Acts":[{"Do":"lock","Count":2}]},{"Client":0,"Acts":[{"Do":"pause","For":4270443},{"Do":"close","Server":1,"Within":1958721126}]},
		{"Client":1,"Acts":[{"Do":"lock","Server":1,"Try":true,"Count":1,"Acts":[{"Do":"pause","For":121780638}]}]}]}`)
}

// TestAnAttemptThatWasLeftAndThenFailsIsGivenBack: the caller left its attempt. When the connection failed
// later, the client did not know whether the server had carried the attempt out.
func TestAnAttemptThatWasLeftAndThenFailsIsGivenBack(t *testing.T) {
	playAgain(t, `{"Seed":1795587950163002116,"Small":true,"Plan":{"Seed":1795587950163002116,"Priorities":true},
		"Clients":[{"Connections":1},{"Connections":1,"MaxHold":3234613628}],"Objects":["read-write","mutex"],
		"Actors":[{"Client":0,"Acts":[]},{"Client":0,"Acts":[]},
		{"Client":1,"Acts":[{"Do":"silence","For":273523396},{"Do":"lock","Object":1,"Count":1}]},
		{"Client":1,"Acts":[{"Do":"silence","For":111751250},{"Do":"lock","Object":1,"Within":39970271,"Count":1}]}]}`)
}

// TestAnUnknownOutcomeIsFollowedByAPause: without it a caller tries again and again while the network
// is down.
func TestAnUnknownOutcomeIsFollowedByAPause(t *testing.T) {
	playAgain(t, `{"Seed":1795588341473000100,"Small":true,"Plan":{"Seed":1795588341473000100,"Within":400},
		"Clients":[{"Connections":2,"ReleaseOnClose":true},{"Connections":1,"ReleaseOnClose":true}],"Objects":["mutex"],
		"Actors":[{"Client":1,"Acts":[{"Do":"lock","Count":1},{"Do":"lock","Count":1},{"Do":"lock","Count":1},
		{"Do":"cut","For":1082330913,"Late":397236096}]},{"Client":1,"Acts":[{"Do":"lock","Count":1},{"Do":"lock","Count":1},
		{"Do":"lock","Count":1,"Acts":[{"Do":"lock","Count":1}]}]}]}`)
}

// TestEachFairWaiterAsksWhenItIsDue: with what the whole queue knows they would ask again and again.
func TestEachFairWaiterAsksWhenItIsDue(t *testing.T) {
	playAgain(t, `{"Seed":1795588470879000194,"Small":true,"Plan":{"Seed":1795588470879000194,"Priorities":true,"Within":400},
		"Cluster":3,"Clients":[{"Connections":1,"ReleaseOnClose":true}],"Objects":["mutex","fair"],
		"Actors":[{"Client":0,"Acts":[{"Do":"lock","Object":1,"Count":1}]},
		{"Client":0,"Acts":[{"Do":"lock","Object":1,"For":1280000000,"Count":1},{"Do":"lock","Object":1,"Count":1}]}]}`)
}

// TestAFieldThatAFairWaiterKeptIsNoOrphanWhileItIsHeld: a request of the waiter was not answered, and
// the next one got the lock. Whoever releases the field then releases the hold.
func TestAFieldThatAFairWaiterKeptIsNoOrphanWhileItIsHeld(t *testing.T) {
	playAgain(t, `{"Seed":1795736993751000004,"Small":true,"Plan":{"Seed":1795736993751000004,"Priorities":true,"Within":400},
		"Clients":[{"Connections":1,"ReleaseOnClose":true,"DropForgotten":true},{"Connections":1,"ReleaseOnClose":true,"DropForgotten":true}],"Objects":["fair","fair"],
		"Actors":[{"Client":1,"Acts":[{"Do":"silence","For":822649000},{"Do":"lock","Object":1,"Count":1,"Forget":true,"Acts":[{"Do":"extend","Object":1,"For":3000000000}]}]}]}`)
}

// TestACopyThatTakesAFairLockAfterItsReleaseIsGivenBack: a request of the waiter was not answered, and
// it comes when the waiter has had the lock and released it.
func TestACopyThatTakesAFairLockAfterItsReleaseIsGivenBack(t *testing.T) {
	playAgain(t, `{"Seed":1795737026444502125,"Small":true,
		"Plan":{"Seed":1795737026444502125,"Priorities":true,"Within":1500,"Lengths":[1000000,20000000,150000000,1000000000,2200000000,2500000000]},
		"Clients":[{"Connections":1},{"Connections":2},{"Connections":2,"ReleaseOnClose":true}],"Objects":["fair","fair"],
		"Actors":[{"Client":0,"Acts":[]},{"Client":0,"Acts":[]},{"Client":0,"Acts":[{"Do":"cut","Late":184536325}]},{"Client":0,"Acts":[{"Do":"lock","Object":1,"Count":1}]},
		{"Client":2,"Acts":[{"Do":"cut","For":2067237653,"Late":-1},{"Do":"lock","Object":1,"For":320000000,"Count":1}]}]}`)
}

// TestASignOfLifeThatComesLateIsSentAgain: the server's clock was set, so its time limit was over.
func TestASignOfLifeThatComesLateIsSentAgain(t *testing.T) {
	playAgain(t, `{"Seed":1795736328007000703,"Small":true,"Plan":{"Seed":1795736328007000703,"Priorities":true,"Within":1500},
		"Clients":[{"Connections":2,"ReleaseOnClose":true,"DropForgotten":true},{"Connections":2,"DropForgotten":true}],"Objects":["fair"],
		"Actors":[{"Client":0,"Acts":[{"Do":"lock","Count":1,"Forget":true},{"Do":"jump","For":1718003675}]},{"Client":0,"Acts":[{"Do":"pause","For":88715983},{"Do":"lock","Count":1}]},
		{"Client":1,"Acts":[{"Do":"lock","Count":1}]},{"Client":1,"Acts":[{"Do":"lock","Count":1,"Acts":[{"Do":"pause","For":1069242302}]}]}]}`)
}

// TestAForgottenLeaseEndsLaterWhenTheClockIsSetBack, which is no fault of a client.
func TestAForgottenLeaseEndsLaterWhenTheClockIsSetBack(t *testing.T) {
	playAgain(t, `{"Seed":1795599357038500697,"Small":true,"Plan":{"Seed":1795599357038500697,"Priorities":true,"Demotions":2,"Within":1500,"Lengths":[1000000,20000000,150000000,1000000000,2200000000,2500000000]},
		"Clients":[{"Connections":2,"ReleaseOnClose":true,"MaxHold":5139445299},{"Connections":2,"DropForgotten":true},{"Connections":2,"ReleaseOnClose":true}],"Objects":["fair"],
		"Actors":[{"Client":0,"Acts":[{"Do":"pause"},{"Do":"silence","For":606507460},{"Do":"pause"},{"Do":"lock","Reads":true,"Count":2}]},
		{"Client":0,"Acts":[{"Do":"pause"},{"Do":"lock","Count":1,"Again":2},{"Do":"pause","For":2256605},{"Do":"silence","For":234830277},{"Do":"pause","For":4373147},{"Do":"jump","For":-1695060316},{"Do":"pause","For":1160969},{"Do":"lock","For":10000000000,"Reads":true,"Count":2,"Again":1}]},
		{"Client":1,"Acts":[{"Do":"pause","For":123803115},{"Do":"pause"},{"Do":"pause"},{"Do":"silence","For":324423398},{"Do":"pause","For":496080103},{"Do":"lock","Reads":true,"Count":1,"Forget":true}]}]}`)
}

// TestARequestMayComeLateAfterAClockWasSetBack: package pipe says so. The hold that it takes stays until
// its lease ends. The oracle once reported this as a fault.
func TestARequestMayComeLateAfterAClockWasSetBack(t *testing.T) {
	playAgain(t, `{"Seed":1795604330657000082,"Small":true,"Slowest":2000000,
		"Plan":{"Seed":1795604330657000082,"Priorities":true,"Within":1500,"Lengths":[1000000,20000000,150000000,1000000000,2200000000,2500000000],"Place":"unlock"},
		"Clients":[{"Connections":1,"ReleaseOnClose":true},{"Connections":1,"ReleaseOnClose":true,"MaxHold":5878105794}],"Objects":["mutex","mutex"],
		"Actors":[{"Client":0,"Acts":[{"Do":"lock","Count":1,"Acts":[{"Do":"pause","For":1461938207}]}]},{"Client":0,"Acts":[]},
		{"Client":1,"Acts":[{"Do":"jump","Object":1,"For":-898953596}]},{"Client":1,"Acts":[{"Do":"lock","Object":1,"Try":true,"Count":1}]},
		{"Client":1,"Acts":[{"Do":"cut","Object":1,"Late":357615289},{"Do":"lock","For":1600000000,"Count":1},{"Do":"lock","Object":1,"For":320000000,"Count":1}]}]}`)
}

// TestAnOwnerReentersItsLockAlthoughAnAnswerForAnotherCameLate: the late answer was to an acquisition whose
// key had been deleted. The client believed that its hold was the only hold of the name.
func TestAnOwnerReentersItsLockAlthoughAnAnswerForAnotherCameLate(t *testing.T) {
	playAgain(t, `{"Seed":1795644039976503805,"Small":true,"Slowest":30000000,
		"Plan":{"Seed":1795644039976503805,"Priorities":true,"Within":400,"Lengths":[1000000,20000000,150000000,1000000000,2200000000,2500000000],"Place":"unlock"},
		"Clients":[{"Connections":1},{"Connections":1,"ReleaseOnClose":true},{"Connections":2}],"Objects":["MultiLock"],
		"Actors":[{"Client":0,"Acts":[]},{"Client":0,"Acts":[]},{"Client":0,"Acts":[]},{"Client":0,"Acts":[]},{"Client":1,"Acts":[]},{"Client":1,"Acts":[]},
		{"Client":2,"Acts":[{"Do":"lock","Count":1}]},{"Client":2,"Acts":[{"Do":"delete"}]},
		{"Client":2,"Acts":[{"Do":"pause","For":4735599},{"Do":"lock","Try":true,"Count":1,"Acts":[{"Do":"pause","For":3536459},{"Do":"lock","Count":1}]}]}]}`)
}

// TestWhoDefersToAClientThatPollsHearsThatTheLockIsFree: a waiter that deferred did not listen yet, because
// it had not been refused.
func TestWhoDefersToAClientThatPollsHearsThatTheLockIsFree(t *testing.T) {
	playAgain(t, `{"Seed":1795644924577519484,"Small":true,"Slowest":2000000,"Cluster":2,
		"Plan":{"Seed":1795644924577519484,"Within":400,"Lengths":[1000000,20000000,150000000,1000000000,2200000000,2500000000]},
		"Clients":[{"Connections":1,"ReleaseOnClose":true},{"Connections":2,"ReleaseOnClose":true}],"Objects":["mutex"],
		"Actors":[{"Client":0,"Acts":[{"Do":"pause","For":1461770},{"Do":"lock","Count":1,"Acts":[{"Do":"lock","Count":1,"Acts":[{"Do":"lock","For":10000000000,"Count":1,"Acts":[{"Do":"pause","For":159678086}]}]}]},{"Do":"lock","Count":1},{"Do":"move"},{"Do":"lock","For":10000000000,"Count":1}]},
		{"Client":0,"Acts":[{"Do":"lock","Count":1},{"Do":"lock","Count":1,"Acts":[{"Do":"lock","Count":1,"Acts":[{"Do":"pause","For":63199945},{"Do":"lock","Count":1},{"Do":"pause","For":392569688}]}]},{"Do":"lock","For":1600000000,"Count":1,"Acts":[{"Do":"lock","Count":1,"Acts":[{"Do":"pause","For":124329971}]}]}]},
		{"Client":1,"Acts":[{"Do":"lock","Count":1,"Acts":[{"Do":"lock","Count":1,"Acts":[{"Do":"lock","For":10000000000,"Count":1,"Acts":[{"Do":"pause","For":4876347},{"Do":"pause","For":4197152}]},{"Do":"pause","For":1458660},{"Do":"lock","For":10000000000,"Count":1,"Acts":[{"Do":"pause","For":2057394}]}]},{"Do":"pause","For":4495921}]}]},
		{"Client":1,"Acts":[{"Do":"pause","For":4509374},{"Do":"lock","Count":1,"Acts":[{"Do":"pause","For":1485584},{"Do":"pause","For":4855193}]},{"Do":"lock","Count":1,"Acts":[{"Do":"pause","For":31727049},{"Do":"lock","For":1280000000,"Count":1,"Acts":[{"Do":"lock","Count":1,"Acts":[{"Do":"pause","For":869590602}]},{"Do":"lock","Count":1,"Acts":[{"Do":"pause","For":4489750},{"Do":"pause","For":3212869}]},{"Do":"pause","For":1303451}]},{"Do":"pause","For":807173},{"Do":"lock","Count":1,"Acts":[{"Do":"pause","For":350715},{"Do":"lock","Count":1,"Acts":[{"Do":"pause","For":1026350},{"Do":"pause","For":4799380},{"Do":"pause","For":1418897}]},{"Do":"lock","Count":1,"Acts":[{"Do":"pause","For":534690176},{"Do":"pause","For":1789257499}]}]}]},{"Do":"lock","For":320000000,"Count":1}]}]}`)
}

// TestARedLockThatIsFreeIsTakenAtOnceAfterManyPolls: every poll took the one member that
// the holder lacked. The waiter mistook that for a collision with another waiter, and paused.
func TestARedLockThatIsFreeIsTakenAtOnceAfterManyPolls(t *testing.T) {
	playAgain(t, `{"Seed":1795708812383528667,"Small":true,"Plan":{"Seed":1795708812383528667,"Priorities":true,"Within":400,"Lengths":[1000000,20000000,150000000,1000000000,2200000000,2500000000],"Place":"unlock"},"Servers":3,
		"Clients":[{"Connections":2,"ReleaseOnClose":true},{"Connections":1},{"Connections":2}],"Objects":["RedLock"],
		"Actors":[{"Client":0,"Acts":[]},{"Client":0,"Acts":[{"Do":"lock","Try":true,"Count":1},{"Do":"lock","Try":true,"Count":1}]},
		{"Client":0,"Acts":[{"Do":"pause","For":4615553},{"Do":"lock","Try":true,"Count":1},{"Do":"lock","Count":1}]},{"Client":0,"Acts":[{"Do":"lock","Count":1,"Acts":[{"Do":"pause","For":1910816761}]}]},
		{"Client":0,"Acts":[{"Do":"pause","For":123468244},{"Do":"lock","Try":true,"Count":1},{"Do":"lock","Try":true,"Count":1},{"Do":"pause","For":101822774},{"Do":"lock","Try":true,"Count":1},{"Do":"pause","For":130274244},{"Do":"lock","Try":true,"Count":1},{"Do":"lock","Within":687779842,"Count":1},{"Do":"lock","Try":true,"Count":1}]},
		{"Client":2,"Acts":[{"Do":"lock","Count":1}]}]}`)
}
