package waitqueue

// fault is a bug that tests build in, to see that they find it. In a program it is
// faultNone, and costs a comparison where it would be.
type fault uint8

const (
	faultNone fault = iota
	faultNewcomerFirst
	faultGrantDropped
	faultRefusedUnasked
	faultNoWakeOnGone
	faultGrantAfterClose
	faultEndlessRun
	faultReaderPassesWriter
	faultServedTooLate
	faultLeaveLooksAtAll
	faultPermitsPass
	// of Probe
	faultConfirmationIgnored
	faultLeaseIgnored
	faultQuietWithoutPing
	faultEndlessDeferral
	faultUnknownForever
	faultStaleAnswer
	faultRestIgnored
)
