package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"regexp"

	"github.com/wheellock/wheellock/lock/internal/transport/endpoint"
)

// readCertificates reads the files of -cacert, -cert and -key. All its errors are errors of usage.
func (s *servers) readCertificates() error {
	if s.caCert == "" && s.cert == "" && s.key == "" {
		return nil
	}
	if u, err := endpoint.Parse(s.url()); err == nil && !u.TLS { // open tells what is wrong with a URL
		return usagef("-cacert, -cert and -key are for connections with TLS: write -redis rediss://, rediss-sentinel:// or rediss-cluster://")
	}
	if (s.cert == "") != (s.key == "") {
		return usagef("-cert and -key belong together: give both files")
	}
	s.tls = &tls.Config{}
	if s.caCert != "" {
		text, err := os.ReadFile(s.caCert)
		if err != nil {
			return usagef("-cacert: %v", reason(err))
		}
		s.tls.RootCAs = x509.NewCertPool()
		if !s.tls.RootCAs.AppendCertsFromPEM(text) {
			return usagef("-cacert: the file has no certificate in PEM format")
		}
	}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		var file *fs.PathError
		if errors.As(err, &file) {
			return usagef("-cert, -key: %s: %v", file.Path, file.Err)
		}
		if err != nil {
			return usagef("-cert, -key: the files are no certificate and its key in PEM format: %v", err)
		}
		s.tls.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// certificateAdvice says what to do about an error of TLS. It returns "" for other errors.
func (s *servers) certificateAdvice(err error) string {
	if u, wrong := endpoint.Parse(s.url()); err == nil || wrong != nil || !u.TLS {
		return ""
	}
	var host x509.HostnameError
	var bad *tls.CertificateVerificationError
	switch {
	case errors.As(err, &host):
		return "the server's certificate is for another name: write that name in the URL (" + host.Error() + ")"
	case errors.As(err, &bad):
		return "the server's certificate is not accepted: give the CA that signed it with -cacert (" + bad.Err.Error() + ")"
	case !refusesUs.MatchString(err.Error()):
		return ""
	case s.cert == "":
		return "the server has ended the connection, as it does if it asks for a certificate of the client: give one with -cert and -key"
	}
	return "the server has ended the connection, as it does if its CA has not signed the certificate of -cert: give another one"
}

// refusesUs matches the errors of a connection to a server that did not accept a client's certificate. With
// TLS 1.3 the alert may be lost, because the client has written a request by then.
var refusesUs = regexp.MustCompile(`remote error: tls: |connection reset|broken pipe|forcibly closed|\bEOF\b`)
