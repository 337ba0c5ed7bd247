package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBugsAreDrawnFromTheText(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "p"), 0o755))
	text := "package p\n\nimport \"time\"\n\nfunc f(a, b bool) {\n\tif a && b {\n\t\tmu.Lock()\n\t\twake()\n\t\tx.mark = true\n\t\tmu.Unlock()\n\t}\n\tg(ans.Stamp)\n\tvar t time.Time\n}\n"
	require.NoError(t, os.WriteFile(filepath.Join(root, "p", "a.go"), []byte(text), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "p", "a_test.go"), []byte("no Go"), 0o600))
	all, err := drawBugs(root, []string{"p"}, 100, 1)
	require.NoError(t, err)
	edits := map[string][2]string{}
	for _, b := range all {
		edits[b.name] = [2]string{b.before, b.after}
		_, err := b.editTexts(root)
		require.NoError(t, err)
	}
	require.Equal(t, map[string][2]string{
		"p-a-if-6":     {"\tif a && b {\n", "\tif !(a && b) {\n"},
		"p-a-or-6":     {"\tif a && b {\n", "\tif a || b {\n"},
		"p-a-call-8":   {"\t\twake()\n", "\t\t\n"},
		"p-a-set-9":    {"\t\tx.mark = true\n", "\t\t\n"},
		"p-a-call-12":  {"\tg(ans.Stamp)\n", "\t\n"},
		"p-a-stamp-12": {"\tg(ans.Stamp)\n", "\tg(time.Now())\n"},
	}, edits)
	some, err := drawBugs(root, []string{"p"}, 2, 7)
	require.NoError(t, err)
	again, err := drawBugs(root, []string{"p"}, 2, 7)
	require.NoError(t, err)
	require.Len(t, some, 2)
	require.Equal(t, some, again)
	_, err = drawBugs(root, []string{"p", "nothing["}, 2, 7)
	require.Error(t, err)
}

// TestAnEditIsOfTextThatIsThereOnce: an edit takes as many lines as that needs.
func TestAnEditIsOfTextThatIsThereOnce(t *testing.T) {
	text := []byte("a\nb\nc\nb\nd\n")
	before, after, ok := uniqueEdit(text, 6, 7, "x")
	require.True(t, ok)
	require.Equal(t, "c\nb\n", before)
	require.Equal(t, "c\nx\n", after)
	_, _, ok = uniqueEdit([]byte("b\nb\nb\nb\nb\nb\nb\nb\nb\nb\nb\nb\nb\nb\nb\nb\n"), 14, 15, "x")
	require.False(t, ok)
}
