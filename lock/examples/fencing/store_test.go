package fencing_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/examples/fencing"
	"github.com/wheellock/wheellock/lock/locktest"
)

// TestTheReadmeHasTheStatementThatShowsAToken, so that it is one that was run.
func TestTheReadmeHasTheStatementThatShowsAToken(t *testing.T) {
	for _, file := range []string{"store.go", "../../../README.md"} {
		text, err := os.ReadFile(file)
		require(t, err)
		const statement = "INSERT INTO fences (lock, token) VALUES (?, ?) ON CONFLICT (lock) DO UPDATE " +
			"SET token = excluded.token WHERE fences.token <= excluded.token"
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), statement) {
			t.Errorf("%s does not have %s", file, statement)
		}
	}
}

// TestTwoHoldersOfALostLock has the story of the package three times. The first holder's lock is lost
// between its read and its write, as if Redis had been restarted without its data.
func TestTwoHoldersOfALostLock(t *testing.T) {
	for _, c := range []struct {
		name      string
		showFirst bool // each holder shows its token before it reads
		uniqueKey bool
		orders    int
		refused   error // what the first holder is told; nil: the second one is refused, or nobody
	}{
		{"the token is compared at the write alone", false, false, 2, nil},
		{"the token is shown before the first read", true, false, 1, fencing.ErrStale},
		{"a unique key, without a token before the read", false, true, 1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := t.Context()
			store := newStore(t, c.uniqueKey)
			mu := locktest.NewServer(t).Client(lock.Config{}).Mutex("customer:bob")
			read := func(held *lock.Held) {
				t.Helper()
				if c.showFirst {
					require(t, store.Show(ctx, held.Name(), held.Token()))
				}
				found, err := store.HasOpenOrder(ctx, "bob")
				require(t, err)
				if found {
					t.Fatal("there is an order already")
				}
			}
			write := func(held *lock.Held, item string) error {
				return store.Insert(ctx, held.Name(), held.Token(), "bob", item)
			}

			first, err := mu.Lock(ctx)
			require(t, err)
			read(first)
			_, err = mu.ForceUnlock(ctx) // Redis forgets the lock
			require(t, err)
			second, err := mu.Lock(ctx)
			require(t, err)
			read(second)
			if err := write(first, "of the first"); !errors.Is(err, c.refused) {
				t.Error("the first holder:", err)
			}
			if err := write(second, "of the second"); (err != nil) != c.uniqueKey {
				t.Error("the second holder:", err)
			}
			if n := count(ctx, t, store); n != c.orders {
				t.Errorf("%d orders, want %d", n, c.orders)
			}
			_ = second.Unlock(ctx)
		})
	}
}

// TestAHolderShowsItsTokenOften: an equal token is the same holder's, so its second write counts.
func TestAHolderShowsItsTokenOften(t *testing.T) {
	store, ctx := newStore(t, false), t.Context()
	for _, item := range []string{"a", "b"} {
		require(t, store.Show(ctx, "n", 7))
		require(t, store.Insert(ctx, "n", 7, "bob", item))
	}
	require(t, store.Show(ctx, "another", 1))
	if err := store.Show(ctx, "n", 6); !errors.Is(err, fencing.ErrStale) {
		t.Error(err)
	}
	if err := store.Insert(ctx, "n", 6, "bob", "c"); !errors.Is(err, fencing.ErrStale) {
		t.Error(err)
	}
	if n := count(ctx, t, store); n != 2 {
		t.Error(n)
	}
}

func newStore(t *testing.T, uniqueKey bool) *fencing.Store {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "orders.db"))
	require(t, err)
	t.Cleanup(func() { db.Close() })
	_, err = db.Exec(fencing.Schema)
	require(t, err)
	if uniqueKey {
		_, err = db.Exec(fencing.UniqueKey)
		require(t, err)
	}
	return &fencing.Store{DB: db}
}

func count(ctx context.Context, t *testing.T, s *fencing.Store) (n int) {
	t.Helper()
	require(t, s.DB.QueryRowContext(ctx, `SELECT count(*) FROM orders`).Scan(&n))
	return n
}

func require(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
