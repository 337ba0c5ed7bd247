package lockgoredis_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/lockgoredis"
)

func Example() {
	server := miniredis.NewMiniRedis() // in the place of a Redis server
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()

	client, err := lockgoredis.New(rdb, lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	held, err := client.Mutex("order:42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(held.Valid(), rdb.Exists(ctx, "order:42").Val())
	fmt.Println(held.Unlock(ctx), rdb.Exists(ctx, "order:42").Val())
	// Output:
	// true 1
	// <nil> 0
}

func ExampleNewFailover() {
	ctx := context.Background()
	options := &redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: []string{"10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"}}
	rdb := redis.NewFailoverClient(options)
	defer rdb.Close()
	client, err := lockgoredis.NewFailover(options, lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	_ = client.Mutex("order:42").Do(ctx, func(context.Context, *lock.Held) error { return nil })
}
