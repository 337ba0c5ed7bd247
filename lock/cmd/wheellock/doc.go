// Command wheellock runs a command while it holds a Redis lock, so that the command
// runs on one machine at a time. If the lock is lost, wheellock ends the command before
// another process can have the lock.
//
//	wheellock run [flags] NAME -- command [argument...]
//	wheellock inspect [-json] [flags] NAME
//	wheellock unlock -force [flags] NAME
//	wheellock list [-limit N] [-json] [flags]
//	wheellock check [flags]
//	wheellock version
//
// Install it with
//
//	go install github.com/wheellock/wheellock/lock/cmd/wheellock@latest
//
// or, in a clone of the repository, with go install ./lock/cmd/wheellock
//
// The lock is a plain Mutex of package lock, in Redisson's format. Go and Java programs
// that use the same name and the same Redis exclude the command too.
//
// # Use
//
// In a crontab, on several machines. If another has the lock, the run is skipped:
//
//	WHEELLOCK_REDIS=redis://user:password@redis.example:6379
//	*/5 * * * *  /usr/local/bin/wheellock run -quiet -keep 1m nightly -- /usr/local/bin/report
//
// The clocks of the machines differ by some seconds. Without -keep, a report of one second
// would run once on each machine. With -keep 1m the lock stays taken for a minute from when
// it was taken. If the lease is longer than that, and a renewal is under way when the
// command ends, it stays taken for a whole lease. wheellock itself exits when the command ends.
// Choose a time that is longer than the clocks differ and shorter than the period. A
// command that could not be started releases the lock at once. A command that failed does
// not. In a crontab, write \% for each % of the line, or cron ends the command there.
//
// The same in a systemd timer:
//
//	[Service]
//	Type=oneshot
//	EnvironmentFile=/etc/wheellock.env
//	ExecStart=/usr/local/bin/wheellock run -quiet -keep 1m nightly -- /usr/local/bin/report
//	SuccessExitStatus=120
//
// Without SuccessExitStatus=120 the unit fails on each machine that skips the run.
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
// Environment= write %% for each % of an encoded password, or systemd drops the variable.
// KillMode=mixed sends SIGTERM to wheellock alone, and wheellock passes it on. The status is
// 143 when SIGTERM has ended the command. In a script:
//
//	wheellock run -wait 10m deploy -- ./deploy.sh
//
// # Flags
//
//	-redis URL      where Redis is, see below; default redis://127.0.0.1:6379
//	-wait TIME      how long to wait for the lock; default 0, one try. "forever", or
//	                a negative time: no limit
//	-lease TIME     how long others wait if this process or machine dies, from 1s;
//	                default 30s. The lock is renewed every third of the lease
//	-grace TIME     how long the command may take to end when the lock is lost, at most
//	                half of the lease; default 10s, or a third of a shorter lease
//	-keep TIME      how long the lock stays taken at least, from when it was taken, even
//	                if the command ends earlier; default 0
//	-quiet          print nothing if another has the lock
//	-label TEXT     who has the lock, as inspect and list show it: letters, digits and
//	                ._-, at most the last 19; default the name of this host, "-" for none
//	-json           of inspect and list: print JSON
//	-force          of unlock: required
//	-prefix PREFIX  stands before NAME, as lock.Config.KeyPrefix; of list: only such locks.
//	                Give it if the user has rights only for such names, or if programs
//	                set a KeyPrefix, because it has its own counter of tokens
//	-cacert FILE    the CA that signed the server's certificate, in PEM format; default
//	                the CAs of the system
//	-cert FILE      a certificate for wheellock, if the server asks for one, as Redis
//	                does by default
//	-key FILE       the private key of -cert
//	-limit N        of list: stop after N locks
//
// A time is a number of seconds, or a text like 500ms, 30s, 5m. Flags stand before or after
// NAME.
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
// # Environment
//
// WHEELLOCK_REDIS replaces -redis, so that no password shows in a list of processes. The
// flag wins over the variable. A variable that is set but empty is wrong usage. If no address
// is given, wheellock uses 127.0.0.1 and says so. The command gets all variables, and
//
//	WHEELLOCK_NAME    the name of the lock, with the prefix
//	WHEELLOCK_TOKEN   the fencing token: a number that rises from holder to holder
//	WHEELLOCK_HOLDER  what a holder's id begins with in "wheellock inspect"
//
// inspect shows the token of a FencedMutex, but not of a plain lock.
//
// # Exit status
//
// The status of the command, 128+n if signal n ended it, or
//
//	120  the lock was not acquired, because another has it; of unlock: another library has it
//	121  the lock was lost: the command was ended, or may have run without it
//	122  Redis does not answer or refuses: it is not known who has the lock
//	125  wrong usage
//	126  the command cannot be run
//	127  the command is not found
//
// inspect, unlock, list, check and version return 1 if they cannot write to the standard output.
// The line of unlock then also says whether it took the lock away. check also returns 1 if
// something is missing on Redis.
//
// A command may return these numbers too. wheellock writes a line to the standard error when
// the number is its own, except for 120 with -quiet. Of these numbers, only 121 can mean that
// the command was run.
//
// If the standard error is not read (a pager that waits, a log driver that hangs, Ctrl-S),
// wheellock does everything else all the same. It keeps up to 100 lines, drops further ones,
// and says how many (P34). At its end it waits up to 2 s for its lines to be read.
//
// # When the lock is lost
//
// wheellock sends SIGTERM and SIGCONT to the process group of the command, and SIGKILL when
// the grace is over. The lock is safe until shortly before its lease ends in Redis. SIGKILL
// is sent at the latest 1 s before that time, or a twentieth of the lease if that is less.
// So if Redis cannot be reached, SIGTERM is sent while the lock is still held. With the
// defaults that is 18 s after the last renewal. The command is then ended even if Redis
// answers again. The last renewal may be a third of the lease old when Redis stops, so a
// command survives 8 s without Redis, and 18 s at most. With -lease 60s it is 28 s and 48 s.
//
// If Redis does not answer when the command ends, the time of -keep is not set, and the lock is
// free when its lease ends. The status is that of the command.
//
// If the lock is deleted, or Redis loses it, another may take it at once. The next renewal
// finds this, within a third of the lease. If that is too late, let the resource check
// WHEELLOCK_TOKEN.
//
// If the command ends by itself while Redis does not answer, the status is the command's,
// because the lock was held all the time. wheellock tries for 3 s to release the lock. If
// that fails, the lock is free when its lease ends.
//
// # What is not covered
//
//   - A command that runs as another user (sudo, su) cannot be ended. wheellock refuses to
//     run a setuid program, and says so if it cannot end a process that the command has
//     started. Write "sudo wheellock run NAME -- command" instead. sudo drops the variables
//     of the environment unless it is told to keep them.
//   - Background processes that outlive the command run without the lock. When the lock is
//     lost, those in the same process group are ended too.
//   - If wheellock is killed (SIGKILL), Linux kills the command, but not the children of the
//     command. Other systems let the command run on. systemd ends all.
//   - While wheellock is stopped (SIGSTOP), or the machine is suspended, the command is not
//     ended.
//   - On Windows the command is killed when SIGTERM would be sent, and its children are not
//     ended. The default grace is 0. Ctrl-C reaches the command through the console.
//   - On systems other than Linux and macOS the command never gets the terminal.
//
// # Signals
//
// SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT are passed on
// to the process group of the command. Before the command starts, the first four signals end
// the wait, with status 128+n. The lock is kept until the command ends, even while another
// process has stopped the command.
//
// SIGHUP and SIGINT stay ignored if they were, for nohup. Other signals that were ignored, such
// as SIGTERM and SIGPIPE, have their default action for the command. systemd ignores SIGPIPE for
// its services. If the command relies on that, let a shell ignore it again:
//
//	wheellock run billing -- sh -c 'trap "" PIPE; exec /usr/local/bin/billing'
//
// As process 1 of a container, wheellock reaps the orphaned processes of the command. When
// wheellock ends, all processes of the container end.
//
// At a terminal, the command gets the terminal when it reads from the terminal. If the
// command's input and output are the terminal, it gets it at once. Ctrl-C reaches the command
// either way. Ctrl-C also ends the script that called wheellock, unless the command handles
// it. Ctrl-Z suspends both the command and wheellock, and the lock is then not renewed. If
// the lock is lost meanwhile, fg ends the command. While the command has the terminal, every
// SIGTSTP counts as Ctrl-Z. To stop the command alone and keep the lock, send it SIGSTOP.
//
// # Listing
//
// list shows every Mutex, FencedMutex, FairMutex and RWMutex that is held, including those of
// Redisson: its name, kind, lease, holders (at most three) and the number of waiting clients.
// A FairMutex shows as mutex while nobody waits for it. With -json every line is one object.
//
// list scans all keys of each master in small steps, so that no call delays others for long.
// It shows each lock as it finds it, so the list is no snapshot. If slots of a Cluster are being
// moved, it looks up to three times, and then says that locks may be missing. The user needs the
// commands SCAN, TYPE and PUBSUB besides the commands for locks. As soon as a lock is held, it also
// needs HGET, HRANDFIELD and LLEN. "wheellock check" says which are missing. inspect and unlock
// need no more than locks do. inspect does not say how many clients wait: list -prefix NAME does.
//
// inspect, list, and a run that does not get the lock show a holder's label, which is the end
// of its client's id. inspect and list also show the holder's hash field. The label comes from
// the flag -label, or from lock.Config of a program. Texts with bytes that are not printable
// are quoted.
package main
