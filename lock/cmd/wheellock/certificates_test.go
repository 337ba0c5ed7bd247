package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
)

// TestCertificatesAreFiles: the CA of the server, and a certificate of the client, which Redis demands by default.
func TestCertificatesAreFiles(t *testing.T) {
	t.Parallel()
	s := fixture.Secure(t)
	url := "rediss://" + s.SecureAddr
	all := []string{"-cacert", s.CAFile, "-cert", s.CertFile, "-key", s.KeyFile}
	for _, args := range [][]string{{"inspect", "n"}, {"unlock", "-force", "n"}, {"list"}, {"check"}, {"run", "n", "--", executable(t), "version"}} {
		w := wheellock(t, url, append(append(args[:1:1], all...), args[1:]...)...)
		require.Zero(t, w.run(t), w.stderr)
		require.NotContains(t, w.stderr.String(), "certificate")
	}
	for _, args := range [][]string{{"inspect", "n"}, {"list"}, {"check"}, {"run", "n", "--", executable(t), "version"}} {
		for says, flags := range map[string][]string{"give the CA that signed it with -cacert": nil, "give one with -cert and -key": all[:2]} {
			w := wheellock(t, url, append(append(args[:1:1], flags...), args[1:]...)...)
			require.Equal(t, statusUnknown, w.run(t), w.stderr)
			require.Contains(t, w.stderr.String(), says, args)
			require.NotContains(t, w.stderr.String(), "Endpoint")
		}
	}
	w := wheellock(t, strings.Replace(url, "127.0.0.1", "localhost", 1), append([]string{"inspect", "n"}, all...)...)
	require.Equal(t, statusUnknown, w.run(t), w.stderr)
	w.requireOneLine(t, "is for another name")
	other := fixture.Secure(t)
	w = wheellock(t, url, "inspect", "-cacert", s.CAFile, "-cert", other.CertFile, "-key", other.KeyFile, "n")
	require.Equal(t, statusUnknown, w.run(t), w.stderr)
	w.requireOneLine(t, "has not signed the certificate of -cert")
}

func TestWrongCertificateFilesAreWrongUsage(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for says, flags := range map[string][]string{
		"-cacert: no such file":                   {"-cacert", empty + "x"},
		"no certificate in PEM format":            {"-cacert", empty},
		"-cert and -key belong together":          {"-cert", empty},
		"-cert, -key: " + empty + "x: no such":    {"-cert", empty + "x", "-key", empty},
		"no certificate and its key in PEM":       {"-cert", empty, "-key", empty},
		"write -redis rediss://, rediss-sentinel": {"-cacert", empty, "-redis", "redis://h"},
	} {
		w := wheellock(t, "rediss://127.0.0.1:1", append([]string{"inspect", "n"}, flags...)...)
		require.Equal(t, statusUsage, w.run(t), w.stderr)
		w.requireOneLine(t, says)
	}
}
