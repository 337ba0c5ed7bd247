package sentinel_test

import (
	"context"
	"log"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/sentinel"
)

func ExampleOpen() {
	ctx := context.Background()
	master, err := sentinel.Open("redis-sentinel://:secret@10.0.0.1:26379,10.0.0.2:26379,10.0.0.3:26379?master=mymaster", sentinel.Config{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := lock.NewTopology(master, lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	_ = client.Mutex("order:42").Do(ctx, func(context.Context, *lock.Held) error { return nil })
}

func Example() {
	ctx := context.Background()
	master, err := sentinel.New(sentinel.Config{
		Master:      "mymaster",
		Sentinels:   []string{"10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"},
		DialOptions: []redis.DialOption{redis.DialPassword("secret")},
	})
	if err != nil {
		log.Fatal(err)
	}
	client, err := lock.NewTopology(master, lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	_ = client.Mutex("order:42").Do(ctx, func(context.Context, *lock.Held) error { return nil })
}
