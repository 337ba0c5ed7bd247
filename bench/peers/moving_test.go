package peers

import (
	"context"
	"errors"
	"log"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
)

// The functions of lock/MOVING.md.

func rueidisEndpoint(o rueidis.ClientOption) lock.Endpoint {
	e := lock.Endpoint{URL: "redis", TLS: o.TLSConfig, Credentials: func(context.Context) (string, string, error) {
		if o.AuthCredentialsFn == nil {
			return o.Username, o.Password, nil
		}
		a, err := o.AuthCredentialsFn(rueidis.AuthCredentialsContext{})
		return a.Username, a.Password, err
	}}
	q := url.Values{"db": {strconv.Itoa(o.SelectDB)}, "client_name": {o.ClientName}}
	if o.TLSConfig != nil {
		e.URL = "rediss"
	}
	if s := o.Sentinel; s.MasterSet != "" {
		e.URL += "-sentinel"
		q.Set("master", s.MasterSet)
		q.Set("sentinel_user", s.Username)
		q.Set("sentinel_password", s.Password)
	}
	e.URL += "://" + strings.Join(o.InitAddress, ",") + "?" + q.Encode()
	return e
}

func valkeyEndpoint(o valkey.ClientOption) lock.Endpoint {
	e := lock.Endpoint{URL: "redis", TLS: o.TLSConfig, Credentials: func(context.Context) (string, string, error) {
		if o.AuthCredentialsFn == nil {
			return o.Username, o.Password, nil
		}
		a, err := o.AuthCredentialsFn(valkey.AuthCredentialsContext{})
		return a.Username, a.Password, err
	}}
	q := url.Values{"db": {strconv.Itoa(o.SelectDB)}, "client_name": {o.ClientName}}
	if o.TLSConfig != nil {
		e.URL = "rediss"
	}
	if s := o.Sentinel; s.MasterSet != "" {
		e.URL += "-sentinel"
		q.Set("master", s.MasterSet)
		q.Set("sentinel_user", s.Username)
		q.Set("sentinel_password", s.Password)
	}
	e.URL += "://" + strings.Join(o.InitAddress, ",") + "?" + q.Encode()
	return e
}

// leader is the Elector of one process, which leads while it has the lock.
type leader struct{ held atomic.Pointer[lock.Held] }

// IsLeader implements gocron.Elector. It asks no server.
func (l *leader) IsLeader(context.Context) error {
	if held := l.held.Load(); held == nil || !held.Valid() {
		return errors.New("another process leads")
	}
	return nil
}

// campaign leads whenever it can, until ctx ends.
func (l *leader) campaign(ctx context.Context, mu *lock.Mutex) {
	for ctx.Err() == nil {
		err := mu.Do(ctx, func(ctx context.Context, held *lock.Held) error {
			l.held.Store(held)
			<-ctx.Done() // the lock is lost, or the process ends
			return nil
		})
		if err != nil && ctx.Err() == nil {
			log.Print("this process leads no more, or cannot: ", err)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// TestMOVINGShowsWhatIsCompiledHere, line for line.
func TestMOVINGShowsWhatIsCompiledHere(t *testing.T) {
	page, err := os.ReadFile("../../lock/MOVING.md")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.ReadFile("moving_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 3 {
		t.Fatalf("the page has %d blocks of Go", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(string(here), "\n"+block[1]) {
			t.Errorf("the page has what is not compiled here:\n%s", block[1])
		}
	}
}

// requireLocks takes and releases a lock, which exists meanwhile.
func requireLocks(t *testing.T, e lock.Endpoint, exists func(ctx context.Context, key string) (int64, error)) {
	t.Helper()
	c, err := e.Open(lock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer fixture.CloseNow(c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Mutex("moving").Do(ctx, func(ctx context.Context, _ *lock.Held) error {
		if n, err := exists(ctx, "moving"); n != 1 || err != nil {
			return errors.Join(errors.New("the other client does not see the lock"), err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestMOVINGWorks: TLS with a certificate of the client, a user, a database and a function of
// credentials; and Sentinels with a user of their own.
func TestMOVINGWorks(t *testing.T) {
	fixture.NeedAbilities(t, redistest.ChannelRights)
	s := fixture.Secure(t)
	fixture.Do(t, s.Server, "ACL", "SETUSER", "app", "on", ">pass:word/", "allkeys", "allchannels", "+@all")
	rs := fixture.Sentinels(t, redistest.SentinelOptions{})
	for _, s := range append(rs.Servers[:1:1], rs.Sentinels...) {
		fixture.Do(t, s, "ACL", "SETUSER", "app", "on", ">pass:word/", "allkeys", "allchannels", "+@all")
	}
	t.Run("rueidis", func(t *testing.T) {
		var asked atomic.Int64
		secure := rueidis.ClientOption{InitAddress: []string{s.SecureAddr}, TLSConfig: s.Client, SelectDB: 3, Username: "app", Password: "pass:word/", ForceSingleClient: true, DisableCache: true}
		provided := secure
		provided.Username, provided.Password = "", ""
		provided.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			asked.Add(1)
			return rueidis.AuthCredentials{Username: "app", Password: "pass:word/"}, nil
		}
		behind := rueidis.ClientOption{
			InitAddress: rs.Addrs(), Username: "app", Password: "pass:word/", DisableCache: true,
			Sentinel: rueidis.SentinelOption{MasterSet: rs.Name, Username: "app", Password: "pass:word/"},
		}
		for _, o := range []rueidis.ClientOption{secure, provided, behind} {
			client, err := rueidis.NewClient(o)
			if err != nil {
				t.Fatal(err)
			}
			before := asked.Load()
			requireLocks(t, rueidisEndpoint(o), func(ctx context.Context, key string) (int64, error) {
				return client.Do(ctx, client.B().Exists().Key(key).Build()).AsInt64()
			})
			if o.AuthCredentialsFn != nil && asked.Load() == before {
				t.Error("AuthCredentialsFn was not asked")
			}
			client.Close()
		}
	})
	t.Run("valkey-go", func(t *testing.T) {
		var asked atomic.Int64
		secure := valkey.ClientOption{InitAddress: []string{s.SecureAddr}, TLSConfig: s.Client, SelectDB: 3, Username: "app", Password: "pass:word/", ForceSingleClient: true, DisableCache: true}
		provided := secure
		provided.Username, provided.Password = "", ""
		provided.AuthCredentialsFn = func(valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
			asked.Add(1)
			return valkey.AuthCredentials{Username: "app", Password: "pass:word/"}, nil
		}
		behind := valkey.ClientOption{
			InitAddress: rs.Addrs(), Username: "app", Password: "pass:word/", DisableCache: true,
			Sentinel: valkey.SentinelOption{MasterSet: rs.Name, Username: "app", Password: "pass:word/"},
		}
		for _, o := range []valkey.ClientOption{secure, provided, behind} {
			client, err := valkey.NewClient(o)
			if err != nil {
				t.Fatal(err)
			}
			before := asked.Load()
			requireLocks(t, valkeyEndpoint(o), func(ctx context.Context, key string) (int64, error) {
				return client.Do(ctx, client.B().Exists().Key(key).Build()).AsInt64()
			})
			if o.AuthCredentialsFn != nil && asked.Load() == before {
				t.Error("AuthCredentialsFn was not asked")
			}
			client.Close()
		}
	})
}

// TestMOVINGWorksOnACluster: the function passes TLS and Credentials to cluster.Open.
func TestMOVINGWorksOnACluster(t *testing.T) {
	rc := fixture.Cluster(t, redistest.ClusterOptions{})
	o := rueidis.ClientOption{InitAddress: rc.Addrs()}
	e := rueidisEndpoint(o)
	nodes, err := cluster.Open("redis-cluster://"+strings.Join(o.InitAddress, ","), cluster.Options{TLS: e.TLS, Credentials: e.Credentials})
	if err != nil {
		t.Fatal(err)
	}
	c := fixture.Client(t, nodes, lock.Config{})
	held := fixture.Hold(t, c.Mutex("m").Lock)
	if err := held.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestOneSchedulerOfGocronLeads: jobs run in one process until its client is closed, and then in the other.
func TestOneSchedulerOfGocronLeads(t *testing.T) {
	s := fixture.Server(t)
	var runs [2]atomic.Int64
	var clients [2]*lock.Client
	for i := range runs {
		clients[i] = fixture.ClientOf(t, s, lock.Config{Lease: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		l := new(leader)
		campaigned := make(chan bool)
		go func() {
			l.campaign(ctx, clients[i].Mutex("scheduler"))
			close(campaigned)
		}()
		scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(l))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scheduler.NewJob(gocron.DurationJob(5*time.Millisecond), gocron.NewTask(func() { runs[i].Add(1) })); err != nil {
			t.Fatal(err)
		}
		scheduler.Start()
		t.Cleanup(func() {
			cancel()
			<-campaigned
			if err := scheduler.Shutdown(); err != nil {
				t.Error(err)
			}
		})
	}
	first := -1
	for began := time.Now(); runs[0].Load()+runs[1].Load() < 20; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("nobody runs jobs")
		}
	}
	for i := range runs {
		if runs[i].Load() > 0 {
			first = i
		}
	}
	if other := runs[1-first].Load(); other > 0 {
		t.Fatalf("both have run jobs: %d and %d", runs[first].Load(), other)
	}
	go fixture.CloseNow(clients[first]) // it gives back what it has when its work has ended
	for began := time.Now(); runs[1-first].Load() < 20; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("nobody follows the first leader")
		}
	}
	led := runs[first].Load()
	time.Sleep(100 * time.Millisecond)
	if runs[first].Load() != led {
		t.Error("the first one goes on to run jobs")
	}
}
