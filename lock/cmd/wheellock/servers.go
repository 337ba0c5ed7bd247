package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"strings"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/support/diagnosis"
)

// standardRedis is the URL of Redis if none is given.
const standardRedis = "redis://127.0.0.1:6379"

// forms maps flags and variables of earlier versions to the URLs that replace them.
var forms = map[string]string{
	"-cluster": "redis-cluster://host:port,host:port", "WHEELLOCK_CLUSTER": "redis-cluster://host:port,host:port",
	"-sentinel": "redis-sentinel://host:port,host:port/0?master=mymaster", "WHEELLOCK_SENTINEL": "redis-sentinel://host:port,host:port/0?master=mymaster",
}

// servers says where Redis is, how to connect, and which names are the locks'.
type servers struct {
	redis   string
	caCert  string // files
	cert    string
	key     string
	prefix  string      // of the names of locks
	tls     *tls.Config // from the files; nil if there are none
	assumed bool        // no address was given, so redis is standardRedis
}

// register adds the flags to fs.
func (s *servers) register(fs *flag.FlagSet) {
	fs.StringVar(&s.caCert, "cacert", "", "`file` with the CA that signed the server's certificate (default those of the system)")
	fs.StringVar(&s.cert, "cert", "", "`file` with a certificate for this client, if Redis asks for one")
	fs.StringVar(&s.key, "key", "", "`file` with the private key of -cert")
	fs.Func("prefix", "`text` before the names of locks, as lock.Config.KeyPrefix: give it if the user may use only\nsuch names, or if programs set a KeyPrefix", s.setPrefix)
	fs.Func("redis", "`URL` of Redis: redis://user:password@host:6379/0, rediss:// for TLS, unix:///path, or host:port;\n"+
		"redis-sentinel://host:port,host:port/0?master=mymaster; redis-cluster://host:port,host:port\n(default $WHEELLOCK_REDIS, else "+standardRedis+")", s.setRedis)
}

// setRedis is the flag -redis. If an empty value meant 127.0.0.1, a variable that was lost on the way
// would give every machine a lock of its own.
func (s *servers) setRedis(value string) error {
	if value == "" {
		return errors.New("it is empty: give the address of Redis, or leave the flag out")
	}
	s.redis = value
	return nil
}

// setPrefix is the flag -prefix.
func (s *servers) setPrefix(value string) error {
	if keys.CheckPrefix(value) != nil {
		return errors.New("it has a brace and no hash tag: write the tag as in \"{app}:\", or leave the braces out")
	}
	s.prefix = value
	return nil
}

// settle completes s: it takes the address from the flag, or else from the environment, or else
// uses standardRedis and says so, unless quiet. It reads the certificates.
func (p *program) settle(s *servers, quiet bool) error {
	if err := p.findAddress(s); err != nil {
		return err
	}
	if !quiet {
		p.sayAssumed(s)
	}
	return s.readCertificates()
}

func (p *program) findAddress(s *servers) error {
	if s.redis != "" {
		return nil
	}
	for _, name := range []string{"WHEELLOCK_CLUSTER", "WHEELLOCK_SENTINEL"} {
		if _, set := p.lookupEnv(name); set { // if it were ignored, the lock would be taken on another server
			return usagef("%s is not read any more: unset it and set WHEELLOCK_REDIS=%s", name, forms[name])
		}
	}
	value, set := p.lookupEnv("WHEELLOCK_REDIS")
	if set && value == "" { // as in setRedis
		return usagef("WHEELLOCK_REDIS is empty: set it to the address of Redis, or unset it")
	}
	if s.redis = value; !set {
		s.redis, s.assumed = standardRedis, true
	}
	return nil
}

// sayAssumed prints a line if no address was given.
func (p *program) sayAssumed(s *servers) {
	if s.assumed {
		p.say("no address of Redis is given, so %s is used: set -redis or WHEELLOCK_REDIS", standardRedis)
		s.assumed = false
	}
}

// open returns a client. It does no I/O, so all its errors are errors of usage.
func (s *servers) open(cfg lock.Config) (*lock.Client, error) {
	cfg.KeyPrefix = s.prefix
	c, err := s.client(cfg)
	var own *statusError
	if err != nil && !errors.As(err, &own) {
		err = usagef("-redis: %s", plain(err))
	}
	return c, err
}

func (s *servers) client(cfg lock.Config) (*lock.Client, error) {
	if s.isCluster() {
		nodes, err := cluster.Open(s.redis, cluster.Options{TLS: s.tls})
		if err != nil {
			return nil, err
		}
		return lock.NewTopology(nodes, cfg)
	}
	return lock.Endpoint{URL: s.url(), TLS: s.tls}.Open(cfg)
}

// plain returns the text of an error for a user who does not know the library.
func (s *servers) plain(err error) string {
	if text := s.certificateAdvice(err); text != "" {
		return text
	}
	if s.prefix == "" && diagnosis.LacksKey(err) {
		return plain(err) + "; " + forgotPrefix
	}
	return plain(err)
}

// forgotPrefix is the advice where the user may not use a key.
const forgotPrefix = "did you forget -prefix? It is the text before the names that this user may use"

// explain returns err with the text of plain.
func (s *servers) explain(err error) error {
	if err == nil {
		return nil
	}
	return &statusError{statusOf(err), s.plain(err)}
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
