package lockotel

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/wheellock/wheellock/lock"
)

// Keys of attributes.
const (
	nameKey    = attribute.Key("wheellock.lock.name")
	tokenKey   = attribute.Key("wheellock.lock.token")
	clientKey  = attribute.Key("wheellock.client.id")
	outcomeKey = attribute.Key("wheellock.outcome")
	waitKey    = attribute.Key("wheellock.wait")
	reasonKey  = attribute.Key("wheellock.reason")
)

// reasons are the values of reasonKey.
var reasons = map[lock.Reason]string{
	lock.NotOwner: "not_owner", lock.TrustEnded: "trust_ended", lock.MaxHold: "max_hold",
	lock.Expired: "expired", lock.Closed: "closed", lock.Suspended: "suspended",
}
