package main

import (
	"errors"
	"flag"
	"strings"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
)

// standardRedis is the URL of Redis if none is given.
const standardRedis = "redis://127.0.0.1:6379"

// forms maps flags and variables of earlier versions to the URLs that replace them.
var forms = map[string]string{
	"-cluster": "redis-cluster://host:port,host:port", "WHEELLOCK_CLUSTER": "redis-cluster://host:port,host:port",
	"-sentinel": "redis-sentinel://host:port,host:port/0?master=mymaster", "WHEELLOCK_SENTINEL": "redis-sentinel://host:port,host:port/0?master=mymaster",
}

// servers says where Redis is.
type servers struct{ redis string }

// register makes the flag.
func (s *servers) register(fs *flag.FlagSet) {
	fs.StringVar(&s.redis, "redis", "", "`URL` of Redis: redis://user:password@host:6379/0, rediss:// for TLS, unix:///path, or host:port;\n"+
		"redis-sentinel://host:port,host:port/0?master=mymaster; redis-cluster://host:port,host:port\n(default $WHEELLOCK_REDIS, else "+standardRedis+")")
}

// settle takes the address from the flag, or else from the environment. If neither has an
// address, settle prints a line and uses standardRedis.
func (p *program) settle(s *servers) error {
	if s.redis != "" {
		return nil
	}
	for _, name := range []string{"WHEELLOCK_CLUSTER", "WHEELLOCK_SENTINEL"} {
		if _, set := p.lookupEnv(name); set { // if it were ignored, the lock would be taken on another server
			return usagef("%s is not read any more: unset it and set WHEELLOCK_REDIS=%s", name, forms[name])
		}
	}
	value, set := p.lookupEnv("WHEELLOCK_REDIS")
	if set && value == "" {
		// If an empty value meant 127.0.0.1, a setting that was lost on the way would give
		// every machine a lock of its own.
		return usagef("WHEELLOCK_REDIS is empty: set it to the address of Redis, or unset it")
	}
	if s.redis = value; !set {
		s.redis = standardRedis
		p.say("no address of Redis is given, so %s is used: set -redis or WHEELLOCK_REDIS", standardRedis)
	}
	return nil
}

// open returns a client. It does no I/O, so all its errors are errors of usage.
func (s *servers) open(cfg lock.Config) (*lock.Client, error) {
	c, err := s.client(cfg)
	var own *statusError
	if err != nil && !errors.As(err, &own) {
		err = usagef("-redis: %s", plain(err))
	}
	return c, err
}

func (s *servers) client(cfg lock.Config) (*lock.Client, error) {
	if s.isCluster() {
		nodes, err := cluster.Open(s.redis, cluster.Options{})
		if err != nil {
			return nil, err
		}
		return lock.NewTopology(nodes, cfg)
	}
	return lock.Open(s.url(), cfg)
}

func (s *servers) isCluster() bool {
	return strings.HasPrefix(s.redis, "redis-cluster://") || strings.HasPrefix(s.redis, "rediss-cluster://")
}

// url returns s.redis as a URL. s.redis may also be an address or the path of a socket.
func (s *servers) url() string {
	switch {
	case strings.Contains(s.redis, "://"):
		return s.redis
	case strings.HasPrefix(s.redis, "/"):
		return "unix://" + s.redis
	}
	return "redis://" + s.redis
}
