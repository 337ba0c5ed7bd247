package main

import (
	"errors"
	"flag"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/sentinel"
)

// standardRedis is where Redis is if nothing says otherwise.
const standardRedis = "redis://127.0.0.1:6379"

// connectTimeout bounds a dial; the client gives up sooner, by its lease.
const connectTimeout = 5 * time.Second

// servers says where Redis is. One of its fields is set after settle.
type servers struct{ redis, cluster, sentinel string }

// register makes the flags.
func (s *servers) register(fs *flag.FlagSet) {
	fs.StringVar(&s.redis, "redis", "", "`URL` of Redis: redis://user:password@host:6379/0, rediss:// for TLS, unix:///path, or host:port\n(default $WHEELLOCK_REDIS, else "+standardRedis+")")
	fs.StringVar(&s.cluster, "cluster", "", "some `nodes` of a Redis Cluster: host:port,host:port or redis://user:password@host:port,host:port\n(default $WHEELLOCK_CLUSTER)")
	fs.StringVar(&s.sentinel, "sentinel", "", "`sentinels` and the name of their master: host:port,host:port/master or redis://user:password@host:port,host:port/master\n(default $WHEELLOCK_SENTINEL)")
}

// settle chooses what was given, in flags first, and then in the environment. It says
// so if nothing was.
func (p *program) settle(s *servers) error {
	n := s.given()
	where := "-redis, -cluster and -sentinel"
	if n == 0 {
		for _, v := range []struct {
			name string
			to   *string
		}{{"WHEELLOCK_REDIS", &s.redis}, {"WHEELLOCK_CLUSTER", &s.cluster}, {"WHEELLOCK_SENTINEL", &s.sentinel}} {
			value, set := p.lookupEnv(v.name)
			if set && value == "" {
				// Else a setting that was lost on the way would be one for 127.0.0.1, and every
				// machine would have a lock of its own.
				return usagef("%s is empty: set it to the address of Redis, or unset it", v.name)
			}
			*v.to = value
		}
		n, where = s.given(), "WHEELLOCK_REDIS, WHEELLOCK_CLUSTER and WHEELLOCK_SENTINEL"
	}
	switch n {
	case 0:
		s.redis = standardRedis
		p.say("no address of Redis is given: %s is used: set -redis or WHEELLOCK_REDIS", standardRedis)
	case 1:
	default:
		return usagef("%d of %s are given: give only one of them", n, where)
	}
	return nil
}

func (s *servers) given() (n int) {
	for _, text := range []string{s.redis, s.cluster, s.sentinel} {
		if text != "" {
			n++
		}
	}
	return n
}

// open returns a client. It does no I/O, so that all its errors are of usage.
func (s *servers) open(cfg lock.Config) (*lock.Client, error) {
	c, err := s.client(cfg)
	var own *statusError
	if err != nil && !errors.As(err, &own) {
		err = usagef("%s: %s", s.flag(), plain(err))
	}
	return c, err
}

// flag is the flag, or what stands for it, that says where Redis is.
func (s *servers) flag() string {
	switch {
	case s.cluster != "":
		return "-cluster"
	case s.sentinel != "":
		return "-sentinel"
	}
	return "-redis"
}

func (s *servers) client(cfg lock.Config) (*lock.Client, error) {
	switch {
	case s.cluster != "":
		nodes, err := parseSeeds("-cluster", s.cluster, "6379")
		if err != nil {
			return nil, err
		}
		if nodes.path != "" || len(nodes.query) > 0 {
			return nil, usagef("-cluster: nothing may stand after the nodes: a Cluster has no database but 0")
		}
		t, err := cluster.New(&redisc.Cluster{StartupNodes: nodes.addrs, DialOptions: nodes.dial()}, cluster.Options{})
		if err != nil {
			return nil, err
		}
		return lock.NewTopology(t, cfg)
	case s.sentinel != "":
		return sentinelClient(s.sentinel, cfg)
	case !strings.Contains(s.redis, "://") && strings.HasPrefix(s.redis, "/"):
		return lock.Open("unix://"+s.redis, cfg)
	case !strings.Contains(s.redis, "://"):
		return lock.Open("redis://"+s.redis, cfg)
	}
	return lock.Open(s.redis, cfg)
}

func sentinelClient(text string, cfg lock.Config) (*lock.Client, error) {
	t, err := sentinelTopology(text)
	if err != nil {
		return nil, err
	}
	return lock.NewTopology(t, cfg)
}

func sentinelTopology(text string) (*sentinel.Topology, error) {
	seeds, err := parseSeeds("-sentinel", text, "26379")
	if err != nil {
		return nil, err
	}
	if seeds.path == "" {
		return nil, usagef("-sentinel: the name of the master is missing: write host:port,host:port/master")
	}
	options := seeds.dial()
	watchers := seeds
	watchers.user, watchers.password = "", ""
	for name, values := range seeds.query {
		value := values[len(values)-1]
		switch name {
		case "db":
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 {
				return nil, usagef("-sentinel: the option db is %q: it must be a number from 0", value)
			}
			options = append(options, redis.DialDatabase(n))
		case "sentinel_user":
			watchers.user = value
		case "sentinel_password":
			watchers.password = value
		default:
			return nil, usagef("-sentinel: the option %q is not known: db, sentinel_user and sentinel_password are", name)
		}
	}
	return sentinel.New(sentinel.Config{
		Master: seeds.path, Sentinels: seeds.addrs, DialOptions: options, SentinelOptions: watchers.dial(),
	})
}

// seeds are several servers and how they are dialled.
type seeds struct {
	addrs          []string
	user, password string
	tls            bool
	path           string
	query          url.Values
}

// parseSeeds reads [redis[s]://][user:password@]host[:port][,host[:port]...][/path][?options].
// Its errors quote nothing that may be a password.
func parseSeeds(flag, text, port string) (seeds, error) {
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		scheme, rest = "redis", text
	}
	if scheme != "redis" && scheme != "rediss" {
		if strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz") != "" { // it may be a part of anything
			return seeds{}, usagef("%s has another scheme than redis or rediss", flag)
		}
		return seeds{}, usagef("%s has the scheme %q: it must be redis or rediss", flag, scheme)
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if strings.Contains(rest[end:], "@") { // what stands before it is a part of a password
		return seeds{}, usagef("%s has an @ behind the hosts: in user and password, percent-encode all but letters, digits and -._~, "+
			"for example / as %%2F, ? as %%3F and @ as %%40", flag)
	}
	// Several hosts are no URL, but what stands around them is.
	at := strings.LastIndex(rest[:end], "@") + 1
	u, err := url.Parse(scheme + "://" + rest[:at] + "hosts" + rest[end:])
	if err != nil {
		return seeds{}, usagef("%s cannot be read: it must be like redis://user:password@host:port,host:port, "+
			"with all but letters, digits and -._~ of user and password percent-encoded", flag)
	}
	s := seeds{tls: scheme == "rediss", user: u.User.Username(), path: strings.TrimPrefix(u.Path, "/"), query: u.Query()}
	s.password, _ = u.User.Password()
	for host := range strings.SplitSeq(rest[at:end], ",") {
		host = strings.TrimSpace(host)
		if !strings.Contains(host, ":") || strings.HasSuffix(host, "]") {
			host += ":" + port
		}
		name, n, err := net.SplitHostPort(host)
		if _, bad := strconv.ParseUint(n, 10, 16); err != nil || bad != nil || name == "" {
			return seeds{}, usagef("%s has an address that is not host:port: write host:port, or several of them with commas", flag)
		}
		s.addrs = append(s.addrs, host)
	}
	return s, nil
}

func (s seeds) dial() []redis.DialOption {
	return []redis.DialOption{
		redis.DialUsername(s.user), redis.DialPassword(s.password), redis.DialUseTLS(s.tls),
		redis.DialConnectTimeout(connectTimeout), redis.DialTLSHandshakeTimeout(connectTimeout),
		redis.DialReadTimeout(connectTimeout), redis.DialWriteTimeout(connectTimeout),
	}
}
