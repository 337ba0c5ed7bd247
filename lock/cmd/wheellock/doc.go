// Command wheellock runs a command while it holds a Redis lock, so that the command
// runs on one machine at a time. It ends the command before another can have the lock.
//
//	wheellock run [flags] NAME -- command [argument...]
//	wheellock inspect [-json] [flags] NAME
//	wheellock unlock -force [flags] NAME
//	wheellock list [-prefix PREFIX] [-limit N] [-json] [flags]
//	wheellock check [-prefix PREFIX] [flags]
//
// Install it with
//
//	go install github.com/wheellock/wheellock/lock/cmd/wheellock@latest
//
// The lock is a plain Mutex of package lock, in Redisson's format: programs in Go and
// Java that use the same name and the same Redis exclude the command too.
//
// # Use
//
// In a crontab. If another holds the lock, the run is skipped:
//
//	*/5 * * * *  /usr/local/bin/wheellock run -quiet nightly -- /usr/local/bin/report
//
// In a systemd unit, for a service that runs on one of several machines:
//
//	[Service]
//	EnvironmentFile=/etc/wheellock.env
//	ExecStart=/usr/local/bin/wheellock run -wait forever billing -- /usr/local/bin/billing
//	KillMode=mixed
//	Restart=always
//	SuccessExitStatus=143
//
//	[Install]
//	WantedBy=multi-user.target
//
// The file has the line WHEELLOCK_REDIS=redis://user:password@redis.example:6379. In
// Environment= each % of an encoded password must be written as %%, or systemd drops the
// variable. KillMode=mixed sends SIGTERM to wheellock alone, which passes it on. Its status
// is 143 when SIGTERM has ended the command. In a script:
//
//	wheellock run -wait 10m deploy -- ./deploy.sh
//
// # Flags
//
//	-redis URL      where Redis is, see below; default redis://127.0.0.1:6379
//	-wait TIME      how long to wait for the lock; default 0, one try. "forever", or
//	                a negative time: no limit
//	-lease TIME     how long others wait if this process or machine dies, from 1s;
//	                default 30s. The lock is renewed every third of it
//	-grace TIME     how long the command may take to end when the lock is lost, at most
//	                half of the lease; default 10s, or a third of a shorter lease
//	-quiet          print nothing if another has the lock
//	-json           of inspect and list: print JSON
//	-force          of unlock: required
//	-prefix PREFIX  of check and list: what the names of locks begin with
//	-limit N        of list: stop after so many locks
//
// A time is a number of seconds, or like 500ms, 30s, 5m. Flags stand before or after NAME.
//
// # Where Redis is
//
//	host:port, or a path                                  one server
//	redis://user:password@host:6379/0                     one server; rediss:// for TLS
//	unix:///run/redis.sock?db=2
//	redis-sentinel://user:password@host1:26379,host2:26379/0?master=mymaster
//	redis-cluster://user:password@host1:6379,host2:6379   some nodes of a Cluster
//
// rediss-sentinel:// and rediss-cluster:// use TLS. "go doc
// github.com/wheellock/wheellock/lock Open" lists the options, such as sentinel_password.
//
// # Listing
//
// list shows every Mutex, FencedMutex, FairMutex and RWMutex that is held, of Redisson too:
// its name, kind, lease, holders (at most three) and how many clients wait. It scans all keys
// of each master in small steps, so that no call holds Redis up, and shows what it finds on
// its way; the whole is no snapshot. A FairMutex shows as mutex while nobody waits for it. With
// -json every line is one object. The user needs SCAN, TYPE, PTTL, HGET, HLEN, HRANDFIELD (HSCAN
// before Redis 6.2), EXISTS, LLEN and PUBSUB; "wheellock check" says which of them are missing.
//
// # Environment
//
// WHEELLOCK_REDIS replaces -redis, so that no password shows in a list of processes. A
// variable that is set and empty is wrong usage. The flag wins. If no address is given,
// wheellock uses 127.0.0.1 and says so. The command gets all variables, and
//
//	WHEELLOCK_NAME    the name of the lock
//	WHEELLOCK_TOKEN   the fencing token: a number that rises from holder to holder
//	WHEELLOCK_HOLDER  what a holder's id begins with in "wheellock inspect"
//
// inspect shows the token of a FencedMutex, but not of a plain lock.
//
// # Exit status
//
// The status of the command, 128+n if signal n ended it, or
//
//	120  the lock was not acquired, because another has it
//	121  the lock was lost: the command was ended, or may have run without it
//	122  Redis does not answer or refuses: nobody knows who has the lock
//	125  wrong usage
//	126  the command cannot be run
//	127  the command is not found
//
// check returns 1 if something is missing on Redis.
//
// A command may return these too. wheellock writes a line to the standard error when the
// number is its own. Of these, only 121 can mean that the command was run.
//
// # When the lock is lost
//
// wheellock sends SIGTERM and SIGCONT to the process group of the command. After the grace
// it sends SIGKILL, and at the latest a twentieth of the lease, or 1 s, before the end of
// trust. Until then Redis certainly keeps the lock. So if Redis cannot be reached, SIGTERM
// is sent while the lock is still held: with the defaults 18 s after the last renewal. The
// command is then ended even if Redis answers again.
//
// If the lock is deleted, or Redis loses it, another may take it at once. The next renewal
// finds this, within a third of the lease. If that is too late, let the resource check
// WHEELLOCK_TOKEN.
//
// If the command ends by itself while Redis does not answer, the status is its own, because
// it always had the lock. wheellock tries for 3 s to release it. Otherwise it is free when
// its lease ends.
//
// # Signals
//
// SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT are passed on
// to the process group of the command. A signal that is ignored stays ignored, for nohup.
// The lock is kept until the command ends, even while it is stopped. Before the command
// starts, the first four end the wait, with status 128+n.
//
// At a terminal, the command gets the terminal when it reads from it, or at once if its
// input and output are the terminal. Ctrl-C reaches it either way. It also ends the script
// that called wheellock, unless the command handles it. Ctrl-Z suspends both. The lock is
// then not renewed. If it is lost, fg ends the command.
//
// # What is not covered
//
//   - A command that runs as another user (sudo, su) cannot be ended. wheellock refuses to
//     run a setuid program, and says so if something that the command has started cannot be
//     ended. Write "sudo wheellock run NAME -- command" instead. sudo drops the variables of
//     the environment unless it is told to keep them.
//   - Background processes that outlive the command run without the lock. When the lock is
//     lost, those in the same process group are ended too.
//   - If wheellock is killed (SIGKILL), Linux kills the command, but not its children.
//     Elsewhere the command goes on. systemd ends all.
//   - While wheellock is stopped (SIGSTOP), or the machine is suspended, the command is not
//     ended.
//   - On Windows the command is killed when SIGTERM would be sent, the default grace is 0,
//     and its children are not ended. Ctrl-C reaches it through the console.
//   - On systems other than Linux and macOS the command never gets the terminal.
package main
