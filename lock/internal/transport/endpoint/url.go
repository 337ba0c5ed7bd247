package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Kind says which servers a URL names.
type Kind int

const (
	One       Kind = iota // one server
	Sentinels             // the sentinels of a master
	Cluster               // some nodes of a Cluster
)

// URL has the parts of a URL.
type URL struct {
	Kind    Kind
	Network string   // tcp or unix
	Addrs   []string // one address for One; for the others one or more
	Master  string   // for Sentinels, the name of the master
	TLS     bool

	Username, Password                 string // of the servers
	SentinelUsername, SentinelPassword string
	Database                           int
	ClientName                         string
	Connect                            time.Duration // the limit of a dial as a whole, from dial_timeout
	Read, Write                        time.Duration // the limits of each answer and each write during a dial
}

// DialTimeout is the default of URL.Connect, URL.Read and URL.Write.
const DialTimeout = 5 * time.Second

// schemes has the known schemes.
var schemes = map[string]URL{
	"redis":           {Kind: One, Network: "tcp"},
	"rediss":          {Kind: One, Network: "tcp", TLS: true},
	"unix":            {Kind: One, Network: "unix"},
	"redis-sentinel":  {Kind: Sentinels, Network: "tcp"},
	"rediss-sentinel": {Kind: Sentinels, Network: "tcp", TLS: true},
	"redis-cluster":   {Kind: Cluster, Network: "tcp"},
	"rediss-cluster":  {Kind: Cluster, Network: "tcp", TLS: true},
}

// spellings maps schemes of other programs to the schemes that replace them here.
var spellings = map[string]string{
	"valkey": "redis", "valkeys": "rediss", "tcp": "redis", "tls": "rediss", "redis+tls": "rediss", "redis+ssl": "rediss",
	"redis-socket": "unix", "redis+socket": "unix", "redis+unix": "unix", "valkey+unix": "unix", "valkey-unix": "unix", "unix+redis": "unix",
	"sentinel": "redis-sentinel", "redis+sentinel": "redis-sentinel", "redissentinel": "redis-sentinel", "valkey-sentinel": "redis-sentinel",
	"valkey+sentinel": "redis-sentinel", "redis-failover": "redis-sentinel", "sentinels": "rediss-sentinel", "rediss+sentinel": "rediss-sentinel",
	"redis+sentinels": "rediss-sentinel", "redis-sentinels": "rediss-sentinel", "redis-sentinel+tls": "rediss-sentinel", "valkeys-sentinel": "rediss-sentinel",
	"cluster": "redis-cluster", "redis+cluster": "redis-cluster", "rediscluster": "redis-cluster", "valkey-cluster": "redis-cluster",
	"valkey+cluster": "redis-cluster", "rediss+cluster": "rediss-cluster", "redis-clusters": "rediss-cluster", "redis+clusters": "rediss-cluster",
	"valkeys-cluster": "rediss-cluster", "redis-cluster+tls": "rediss-cluster",
}

// knownSchemes is the part of an error that says how a URL may begin.
const knownSchemes = "the URL must begin with redis://, rediss://, unix://, redis-sentinel://, rediss-sentinel://, redis-cluster:// or rediss-cluster://"

// howToEncode is the part of an error that says how to write a password.
const howToEncode = "percent-encode all but letters, digits and -._~ of user and password, for example / as %2F, ? as %3F, # as %23 and @ as %40"

// Parse reads a URL.
func Parse(rawURL string) (*URL, error) {
	scheme, rest, found := strings.Cut(rawURL, "://")
	u, ok := schemes[scheme]
	switch replacement := spellings[scheme]; {
	case !found:
		return nil, errors.New("the URL has no scheme: " + knownSchemes)
	case replacement != "":
		return nil, fmt.Errorf("the URL's scheme is %q: write %s://", scheme, replacement)
	case !ok: // the error does not quote the scheme, which may be a part of a password
		return nil, errors.New("the URL's scheme is not known: " + knownSchemes)
	}
	u.Connect, u.Read, u.Write = DialTimeout, DialTimeout, DialTimeout
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	// An @ behind the hosts is the end of a password with a / or ? in it. The parts that look
	// like host, database or option are then parts of that password.
	if strings.Contains(rest[end:], "@") {
		return nil, errors.New("the URL has an @ behind its host: " + howToEncode)
	}
	// Package url cannot parse several hosts, so a stand-in replaces them.
	at := strings.LastIndex(rest[:end], "@") + 1
	standIn := "hosts"
	if at == end && u.Network == "unix" {
		standIn = ""
	}
	parsed, err := url.Parse(scheme + "://" + rest[:at] + standIn + rest[end:])
	if err != nil {
		return nil, errors.New("the URL cannot be read: " + howToEncode)
	}
	if parsed.Fragment != "" || strings.Contains(rest[end:], "#") {
		if u.Kind == Sentinels {
			return nil, errors.New("the URL has a fragment: write the name of the master as ?master=mymaster, and # as %23")
		}
		return nil, errors.New("the URL has a fragment, which has no meaning here: write # as %23")
	}
	if err := u.readUser(parsed.User); err != nil {
		return nil, err
	}
	if err := u.readHosts(scheme, rest[at:end]); err != nil {
		return nil, err
	}
	database, err := u.readPath(scheme, rest[at:end], parsed.Path)
	if err != nil {
		return nil, err
	}
	if err := u.readOptions(parsed.RawQuery, database); err != nil {
		return nil, err
	}
	return &u, nil
}

// readUser reads the part before the @.
func (u *URL) readUser(info *url.Userinfo) error {
	password, given := info.Password()
	switch u.Username, u.Password = info.Username(), password; {
	case u.Username != "" && password == "":
		return errors.New("the URL has a user without a password: write user:password@, or :password@ for the default user")
	case given && password == "":
		return errors.New("the URL's password is empty: leave :@ out, or write :password@")
	}
	return nil
}

// readHosts reads the addresses.
func (u *URL) readHosts(scheme, text string) error {
	if u.Network == "unix" {
		return nil
	}
	port, form := "6379", "host:port"
	if u.Kind == Sentinels {
		port = "26379"
	}
	if u.Kind == One {
		if strings.Contains(text, ",") {
			return errors.New("the URL has several hosts: write " + scheme + "-sentinel://host:port,host:port/0?master=mymaster for the " +
				"sentinels of a master, or " + scheme + "-cluster://host:port,host:port for a Cluster")
		}
		if text == "" || text[0] == ':' {
			text = "localhost" + text
		}
	} else {
		form = "host:port, or several of them with commas"
	}
	for host := range strings.SplitSeq(text, ",") {
		host = strings.TrimSpace(host)
		if !strings.Contains(host, ":") || strings.HasSuffix(host, "]") {
			host += ":" + port
		}
		name, number, err := net.SplitHostPort(host)
		if err != nil || name == "" || strings.ContainsAny(name, " %\"'<>\\^`{|}") && !strings.Contains(host, "[") {
			return errors.New("the URL has an address that is not " + form)
		}
		if strings.Contains(host, "[") {
			name = strings.Replace(name, "%25", "%", 1) // before the zone of an IPv6 address
		}
		if number == "" {
			number = port
		}
		if n, err := strconv.ParseUint(number, 10, 16); err != nil || n == 0 {
			return errors.New("the URL has a port that is no number from 1 to 65535: write " + form + ", and " + howToEncode)
		}
		u.Addrs = append(u.Addrs, net.JoinHostPort(name, number))
	}
	return nil
}

// readPath reads the part after the hosts. For a Unix socket that is the path of the socket. For
// other URLs it is the database, which readPath returns.
func (u *URL) readPath(scheme, hosts, path string) (database string, err error) {
	if u.Network == "unix" {
		if hosts != "" || path == "" {
			return "", errors.New("the URL has no path of a socket: write it like unix:///run/redis.sock, with three slashes")
		}
		u.Addrs = []string{path}
		return "", nil
	}
	database = strings.TrimPrefix(path, "/")
	if _, err := strconv.Atoi(database); err != nil && database != "" && u.Kind == Sentinels {
		return "", fmt.Errorf("the URL's database is no number: write the name of the master as an option, as in %s://host:port,host:port/0?master=mymaster", scheme)
	}
	return database, nil
}

// misnamed maps options of other programs to the options that replace them here.
var misnamed = map[string]string{
	"master_name": "master", "mastername": "master", "masterName": "master", "sentinelMasterId": "master", "service_name": "master", "sentinel_master": "master",
	"database": "db", "sentinel_username": "sentinel_user", "client": "client_name", "clientName": "client_name",
	"timeout": "dial_timeout", "connect_timeout": "dial_timeout",
}

// readOptions reads the part after the question mark.
func (u *URL) readOptions(query, database string) error {
	options, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the URL's options, behind the question mark, cannot be read: write name=value, with & between them, and " + howToEncode)
	}
	texts := map[string]*string{"db": &database, "client_name": &u.ClientName}
	if u.Kind == Sentinels {
		texts["master"], texts["sentinel_user"], texts["sentinel_password"] = &u.Master, &u.SentinelUsername, &u.SentinelPassword
	}
	times := map[string]*time.Duration{"dial_timeout": &u.Connect, "read_timeout": &u.Read, "write_timeout": &u.Write}
	for name, values := range options {
		value := values[len(values)-1]
		text, limit := texts[name], times[name]
		switch {
		case text == nil && limit == nil && misnamed[name] != "":
			return fmt.Errorf("the URL's option %q is not known: write %s", name, misnamed[name])
		case text == nil && limit == nil:
			return errors.New("an option of the URL is not known: the options are " + u.optionNames())
		case len(values) > 1 || name == "db" && database != "":
			return fmt.Errorf("the URL has the option %q more than once", name)
		case text != nil:
			*text = value
		default:
			if *limit, err = time.ParseDuration(value); err != nil || *limit <= 0 {
				return fmt.Errorf("the URL's %s must be a time above 0, like 500ms or 5s", name)
			}
		}
	}
	if strings.ContainsFunc(u.ClientName, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the URL's client_name must have only ASCII characters and no spaces, because Redis refuses others")
	}
	if database != "" {
		if u.Database, err = strconv.Atoi(database); err != nil || u.Database < 0 {
			return errors.New("the URL's database must be a number from 0")
		}
	}
	switch {
	case u.Kind == Cluster && u.Database != 0:
		return errors.New("the URL's database must be 0 or left out, because a Cluster has no other")
	case u.Kind == Sentinels && u.Master == "":
		return errors.New("the URL does not name the master that the sentinels watch: add ?master=mymaster")
	case u.SentinelUsername != "" && u.SentinelPassword == "":
		return errors.New("the URL has a sentinel_user without a sentinel_password")
	}
	return nil
}

func (u *URL) optionNames() string {
	if u.Kind == Sentinels {
		return "master, sentinel_user, sentinel_password, db, client_name, dial_timeout, read_timeout and write_timeout"
	}
	return "db, client_name, dial_timeout, read_timeout and write_timeout"
}

// Settings has the settings that a program adds to a URL. Each may be nil.
type Settings struct {
	NetDial     NetDial
	TLS         *tls.Config
	Credentials Credentials
}

// Dialer returns the Dialer for the servers at u. An error says which of the settings does
// not fit u. field is the name of a setting in that error, for example "Endpoint.%s".
func (u *URL) Dialer(s Settings, field string) (Dialer, error) {
	switch {
	case s.TLS != nil && !u.TLS:
		return Dialer{}, fmt.Errorf(field+" is set, but the URL's scheme is of connections without TLS: write rediss, rediss-sentinel or rediss-cluster", "TLS")
	case s.Credentials != nil && u.Password != "":
		return Dialer{}, fmt.Errorf(field+" is set and the URL has a password: give only one of them", "Credentials")
	}
	d := Dialer{
		NetDial: s.NetDial, TLS: s.TLS, Credentials: s.Credentials, Timeout: u.Connect,
		ClientName: u.ClientName, Database: u.Database, Read: u.Read, Write: u.Write,
	}
	if u.TLS && d.TLS == nil {
		d.TLS = &tls.Config{}
	}
	if d.Credentials == nil && u.Password != "" {
		d.Credentials = fixedCredentials(u.Username, u.Password)
	}
	return d, nil
}

// Sentinel returns the Dialer for the sentinels at u. d is the Dialer for their servers.
func (u *URL) Sentinel(d Dialer) Dialer {
	d.Credentials, d.Database = nil, 0
	if u.SentinelPassword != "" {
		d.Credentials = fixedCredentials(u.SentinelUsername, u.SentinelPassword)
	}
	return d
}

func fixedCredentials(user, password string) Credentials {
	return func(context.Context) (string, string, error) { return user, password, nil }
}
