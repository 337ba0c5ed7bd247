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

// TestAnswersAreBoundedFromTheFirstOne, the answer to AUTH, on every sort of connection.
func TestAnswersAreBoundedFromTheFirstOne(t *testing.T) {
	ctx := context.Background()
	secure := &tls.Config{InsecureSkipVerify: true}
	for name, d := range map[string]Dialer{
		"plain":          {},
		"a NetDial":      {NetDial: new(net.Dialer).DialContext},
		"TLS":            {TLS: secure},
		"TLS, a NetDial": {TLS: secure, NetDial: new(net.Dialer).DialContext},
		"TLS in a NetDial": {NetDial: func(_ context.Context, network, addr string) (net.Conn, error) {
			return tls.Dial(network, addr, secure)
		}},
	} {
		for how, dial := range map[string]func(addr string) (redis.Conn, error){
			"a login": func(addr string) (redis.Conn, error) { return d.Dial(ctx, "tcp", addr, Login{Password: "x"}) },
			"options": func(addr string) (redis.Conn, error) {
				return d.DialOptions(ctx, "tcp", addr, redis.DialPassword("x"), redis.DialReadTimeout(time.Minute))
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				secure := strings.Contains(name, "TLS")
				var answer *AnswerError
				_, err := dial(server(t, secure, "*4000000000\r\n"))
				require.ErrorAs(t, err, &answer)
				conn, err := dial(server(t, secure, "+OK\r\n", "$3\r\nabc\r\n", "$1099511627776\r\n"))
				require.NoError(t, err)
				require.NotNil(t, Below(conn))
				reply, err := redis.String(conn.Do("GET", "a"))
				require.NoError(t, err)
				require.Equal(t, "abc", reply)
				_, err = conn.Do("GET", "b")
				require.ErrorAs(t, err, &answer)
				require.Error(t, conn.Err())
			})
		}
	}
}

func TestACertificateIsThatOfTheHost(t *testing.T) {
	ctx := context.Background()
	addr := server(t, true)
	_, err := Dialer{TLS: &tls.Config{}}.Dial(ctx, "tcp", addr, Login{})
	require.ErrorContains(t, err, "certificate")
	require.NotContains(t, err.Error(), "has no TLS")
	_, err = Dialer{}.DialOptions(ctx, "tcp", addr, redis.DialUseTLS(true))
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
		conn, err := Dialer{TLS: cfg}.Dial(ctx, "tcp", ln.Addr().String(), Login{})
		if want == "" {
			require.NoError(t, err)
			conn.Close()
		} else {
			require.ErrorContains(t, err, want)
		}
		require.Equal(t, name, cfg.ServerName, "it is the caller's")
	}
}

// TestADialEndsInTime: a server that says nothing, in TLS or to a login.
func TestADialEndsInTime(t *testing.T) {
	addr := server(t, false)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := Dialer{TLS: &tls.Config{}}.Dial(ctx, "tcp", addr, Login{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = Dialer{}.Dial(context.Background(), "tcp", addr, Login{Password: "x"}, redis.DialReadTimeout(10*time.Millisecond))
	require.ErrorContains(t, err, "i/o timeout")
	_, err = Dialer{}.DialOptions(context.Background(), "tcp", addr, redis.DialPassword("x"), redis.DialReadTimeout(10*time.Millisecond))
	require.ErrorContains(t, err, "i/o timeout")
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
		conn, err := Dialer{}.Dial(t.Context(), "tcp", ln.Addr().String(),
			Login{User: "u", Password: "p", ClientName: "n", Database: 3}, redis.DialReadTimeout(10*time.Second))
		if says == "" {
			require.NoError(t, err)
			conn.Close()
		} else {
			require.ErrorContains(t, err, says)
		}
		require.Equal(t, "AUTH u p CLIENT SETNAME n SELECT 3", <-heard)
	}
}
