package resp

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// server answers each line that begins with * or + by one text after the other, over TLS or not.
func server(t *testing.T, secure bool, texts ...string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	if secure {
		ln = tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{certificate(t)}})
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for i := 0; ; {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					if line[0] == '*' && i < len(texts) {
						_, _ = c.Write([]byte(texts[i]))
						i++
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	text := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, text, text, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestAnswersAreBoundedFromTheFirstOne, which is that to AUTH, on every sort of connection.
func TestAnswersAreBoundedFromTheFirstOne(t *testing.T) {
	ctx := context.Background()
	for name, options := range map[string][]redis.DialOption{
		"plain":              nil,
		"a dial function":    {redis.DialNetDial(net.Dial)},
		"one with a context": {redis.DialContextFunc(new(net.Dialer).DialContext)},
		"TLS":                {redis.DialUseTLS(true), redis.DialTLSSkipVerify(true)},
		"TLS of one's own":   {redis.DialUseTLS(true), redis.DialTLSConfig(&tls.Config{InsecureSkipVerify: true})},
		"TLS and a function": {redis.DialUseTLS(true), redis.DialTLSSkipVerify(true), redis.DialNetDial(net.Dial)},
		"TLS in a function": {redis.DialContextFunc(func(_ context.Context, network, addr string) (net.Conn, error) {
			return tls.Dial(network, addr, &tls.Config{InsecureSkipVerify: true})
		})},
	} {
		t.Run(name, func(t *testing.T) {
			secure := strings.Contains(name, "TLS")
			var answer *AnswerError
			_, err := DialContext(ctx, "tcp", server(t, secure, "*4000000000\r\n"), append(options, redis.DialPassword("x"))...)
			require.ErrorAs(t, err, &answer)
			conn, err := DialContext(ctx, "tcp", server(t, secure, "+OK\r\n", "$3\r\nabc\r\n", "$1099511627776\r\n"), append(options, redis.DialPassword("x"))...)
			require.NoError(t, err)
			reply, err := redis.String(conn.Do("GET", "a"))
			require.NoError(t, err)
			require.Equal(t, "abc", reply)
			_, err = conn.Do("GET", "b")
			require.ErrorAs(t, err, &answer)
			require.Error(t, conn.Err())
		})
	}
}

func TestACertificateIsThatOfTheHost(t *testing.T) {
	ctx := context.Background()
	addr := server(t, true)
	_, err := DialContext(ctx, "tcp", addr, redis.DialUseTLS(true))
	require.ErrorContains(t, err, "certificate")
	pool := x509.NewCertPool()
	for name, want := range map[string]string{"": "", "somewhere.else": "somewhere.else"} {
		cert := certificate(t)
		leaf, err := x509.ParseCertificate(cert.Certificate[0])
		require.NoError(t, err)
		pool.AddCert(leaf)
		ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
		require.NoError(t, err)
		go func() {
			if c, err := ln.Accept(); err == nil {
				_ = c.(*tls.Conn).Handshake()
			}
			ln.Close()
		}()
		cfg := &tls.Config{RootCAs: pool, ServerName: name}
		conn, err := DialContext(ctx, "tcp", ln.Addr().String(), redis.DialUseTLS(true), redis.DialTLSConfig(cfg))
		if want == "" {
			require.NoError(t, err)
			conn.Close()
		} else {
			require.ErrorContains(t, err, want)
		}
		require.Equal(t, name, cfg.ServerName, "it is the caller's")
	}
}

// TestADialEndsInTime: a server that says nothing, in TCP or in TLS.
func TestADialEndsInTime(t *testing.T) {
	addr := server(t, false)
	_, err := DialContext(context.Background(), "tcp", addr, redis.DialUseTLS(true), redis.DialTLSHandshakeTimeout(10*time.Millisecond))
	require.ErrorIs(t, err, errHandshake)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = DialContext(ctx, "tcp", addr, redis.DialUseTLS(true))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = DialContext(context.Background(), "tcp", addr, redis.DialConnectTimeout(time.Nanosecond))
	require.ErrorContains(t, err, "i/o timeout")
	_, err = DialContext(context.Background(), "tcp", addr, redis.DialPassword("x"), redis.DialReadTimeout(10*time.Millisecond))
	require.ErrorContains(t, err, "i/o timeout")
}

// TestOptionsAreUnderstood: it fails with a redigo whose options are made otherwise. Then
// dialerOf is to be written anew, because connections are not bounded any more.
func TestOptionsAreUnderstood(t *testing.T) {
	d, ok := dialerOf(nil)
	require.True(t, ok)
	require.NotNil(t, d.NetDial)
	require.Nil(t, d.TLS)
	require.Equal(t, 10*time.Second, d.Handshake, "as redigo has it")
	require.Contains(t, runtime.FuncForPC(reflect.ValueOf(d.NetDial).Pointer()).Name(), "names.DialContext", "a name may have several addresses")
	own := Dialer{TLS: &tls.Config{}, Handshake: time.Second, NetDial: func(context.Context, string, string) (net.Conn, error) { return nil, errHandshake }}
	d, ok = dialerOf(own.options()) // which redigo gets if its options are not understood
	require.True(t, ok)
	require.Same(t, own.TLS, d.TLS)
	require.Equal(t, own.Handshake, d.Handshake)
	_, err := d.NetDial(t.Context(), "tcp", "h:1")
	require.Equal(t, errHandshake, err)
	cfg := &tls.Config{ServerName: "a"}
	d, ok = dialerOf([]redis.DialOption{
		redis.DialUseTLS(true), redis.DialTLSConfig(cfg), redis.DialTLSHandshakeTimeout(time.Second), redis.DialUsername("u"),
		redis.DialPassword("p"), redis.DialDatabase(3), redis.DialClientName("n"), redis.DialKeepAlive(time.Second),
		redis.DialReadTimeout(time.Second), redis.DialWriteTimeout(time.Second), redis.DialConnectTimeout(time.Second),
	})
	require.True(t, ok)
	require.Same(t, cfg, d.TLS)
	require.Equal(t, time.Second, d.Handshake)
	_, ok = dialerOf([]redis.DialOption{{}}) // which redigo does not take either
	require.False(t, ok)
}

// TestALoginANameAndADatabaseAreOneFlight: the server answers nothing until all three have come. The
// first error counts, because the others follow from it.
func TestALoginANameAndADatabaseAreOneFlight(t *testing.T) {
	for answers, says := range map[string]string{
		"+OK\r\n+OK\r\n+OK\r\n":                                    "",
		"-WRONGPASS no\r\n-NOAUTH first\r\n-NOAUTH first\r\n":      "WRONGPASS no",
		"+OK\r\n+OK\r\n-ERR DB index is out of range\r\n":          "DB index",
		"+OK\r\n-NOPERM no 'client|setname'\r\n-NOPERM select\r\n": "client|setname",
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		heard := make(chan string, 1)
		go func() {
			defer ln.Close()
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			r := bufio.NewReader(c)
			var words []string
			for len(words) < 8 {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if line[0] != '*' && line[0] != '$' {
					words = append(words, strings.TrimSpace(line))
				}
			}
			heard <- strings.Join(words, " ")
			_, _ = c.Write([]byte(answers))
			_, _ = r.ReadByte()
		}()
		conn, err := DialContext(t.Context(), "tcp", ln.Addr().String(), redis.DialReadTimeout(10*time.Second),
			redis.DialUsername("u"), redis.DialPassword("p"), redis.DialClientName("n"), redis.DialDatabase(3))
		if says == "" {
			require.NoError(t, err)
			conn.Close()
		} else {
			require.ErrorContains(t, err, says)
		}
		require.Equal(t, "AUTH u p CLIENT SETNAME n SELECT 3", <-heard)
	}
}
