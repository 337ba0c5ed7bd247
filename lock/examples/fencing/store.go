// Package fencing is an example: a lock around check-then-insert in a SQL database, for which
// two holders at once must do no harm.
//
// A holder looks whether a customer has an open order, thinks for a while outside of any
// transaction, and inserts one. If its lock gets lost in between, because Redis was restarted
// without its data, another holder does the same. [Store.Show] refuses the earlier of the two
// if each holder shows its token before its first read. If it shows the token only
// when it writes, both may insert: the first to write is the first that the database hears of.
//
// A unique key ([UniqueKey]) makes the token unnecessary here, because the database itself
// refuses the second order. So use one wherever the rule can be written as one, and tokens for the rest.
package fencing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Schema makes the tables. fences has, for each lock, the highest token that was shown.
const Schema = `
CREATE TABLE fences (lock TEXT PRIMARY KEY, token INTEGER NOT NULL);
CREATE TABLE orders (customer TEXT NOT NULL, item TEXT NOT NULL, open INTEGER NOT NULL DEFAULT 1);`

// UniqueKey lets the database refuse a second open order of a customer.
const UniqueKey = `CREATE UNIQUE INDEX one_open_order ON orders (customer) WHERE open = 1`

// ErrStale is returned when a later holder of the lock has shown its token.
var ErrStale = errors.New("fencing: a later holder of the lock has been here")

// Store has the orders. It is safe for concurrent use.
type Store struct{ DB *sql.DB }

// Show notes the token of a holder, before its first read. It returns ErrStale if the database has
// seen a higher one. A holder may show its token often.
func (s *Store) Show(ctx context.Context, lock string, token int64) error {
	return show(ctx, s.DB, lock, token)
}

// database is a sql.DB or a sql.Tx.
type database interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func show(ctx context.Context, db database, lock string, token int64) error {
	done, err := db.ExecContext(ctx, `INSERT INTO fences (lock, token) VALUES (?, ?)
		ON CONFLICT (lock) DO UPDATE SET token = excluded.token WHERE fences.token <= excluded.token`, lock, token)
	if err != nil {
		return fmt.Errorf("fencing: the token of %q was not shown: %w", lock, err)
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return errors.Join(ErrStale, err)
	}
	return nil
}

// HasOpenOrder is the check.
func (s *Store) HasOpenOrder(ctx context.Context, customer string) (found bool, err error) {
	err = s.DB.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM orders WHERE customer = ? AND open = 1)`, customer).Scan(&found)
	return found, err
}

// Insert writes an order if no later holder of the lock has shown its token. The comparison and the
// insertion are one transaction. Otherwise it returns ErrStale and writes nothing.
func (s *Store) Insert(ctx context.Context, lock string, token int64, customer, item string) error {
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := show(ctx, tx, lock, token); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (customer, item) VALUES (?, ?)`, customer, item); err != nil {
		return err
	}
	return tx.Commit()
}
