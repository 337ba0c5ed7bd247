// Package waitqueue decides which caller of one client is next for an object in
// Redis, and when that caller asks Redis again. It only decides. It has no I/O,
// no goroutine, no clock, no lock and no randomness.
//
// A [Line] has the callers of one client for one object, in order, and the
// client's own holds of it. It gives every caller one instruction: wait, probe,
// re-enter a hold, take a hold, or return. To probe is to send Redis the script
// that takes the object. A [Probe] says when the first in line does so next.
// design.go says how package lock uses them, and has the states.
//
// # What they promise
//
// In every state, whatever is lost and whoever is slow:
//
//   - Of the callers that wait for one object, only the first in line probes.
//     Callers that need not wait probe beside it. These are callers of TryLock,
//     readers with no writer before them, callers of a semaphore with an empty
//     line, and readers whose owner writes. In a Line of [QueueInRedis] every caller
//     probes, by a Probe of its own, because Redis has the order.
//   - Two probes of one owner never run at the same time, because the hold of the
//     first would refuse the second. A TryLock that came before such a probe
//     began is refused with it. A TryLock that came later probes next. In QueueInRedis
//     a caller that was refused has a place in Redis. It probes regardless of
//     others of its owner, because its probes keep that place.
//   - A caller may re-enter a hold of its owner. It learns this in the step that
//     makes it true, at any place in the line, even after an unknown answer. A
//     writer whose owner reads gives up, because it would wait for itself.
//   - Callers are served in the order in which they came, except re-entries and
//     readers that may pass. TryLock does not pass a caller for which it would
//     have to wait.
//   - A hold that was handed over is taken by its caller. If that caller leaves
//     or the Line closes, that step returns the hold, so that the user passes it
//     on. Before that, other callers of its owner may re-enter it.
//   - A run of hand-overs ends after RunLimits.Length or RunLimits.Time. Then the object is
//     handed over only by a script that releases it if another client waits.
//   - Strangers are clients of another library, which are slower. While they
//     wait, a [Strangers] says for how long this client leaves each release to
//     them. That is never longer than Yielding.Pause and the deferral to others,
//     however many messages come.
//   - After Close every caller gives up, and nothing is handed over or kept.
//   - While the object is free for the first in line, as far as the client can
//     know, a probe is running or due. A probe is due at once after a message, a
//     confirmation of the subscription, or an own release. Otherwise it is due
//     at the first of these times: the end of the known lease, MaxPoll, and the
//     back-off that follows unknown answers. After a run the client defers to
//     others, for at most MaxPoll.
//   - A caller whose instruction changes is in Step.Wake. So is the first in
//     line when an own release makes it due sooner.
//   - An event costs O(1), and one step for every caller whose instruction
//     changes. It allocates only when a map grows, in Lines of more than eight
//     owners.
//
// # What is not in it
//
// The user of the package does the rest: scripts, fields, tokens, deadlines, the
// counts of holds and semaphores, the places of a FairMutex, listening, and
// retries of a re-entry. The user must also undo what a late request has taken.
package waitqueue
