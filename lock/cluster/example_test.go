package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
)

func ExampleOpen() {
	ctx := context.Background()
	nodes, err := cluster.Open("redis-cluster://:secret@10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379", cluster.Options{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := lock.NewTopology(nodes, lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	_ = client.Mutex("order:42").Do(ctx, func(context.Context, *lock.Held) error { return nil })
}

func ExampleNew() {
	ctx := context.Background()
	nodes, err := cluster.New(&redisc.Cluster{
		StartupNodes: []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"},
		DialOptions:  []redis.DialOption{redis.DialPassword("secret")},
	}, cluster.Options{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := lock.NewTopology(nodes, lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	_ = client.Mutex("order:42").Do(ctx, func(context.Context, *lock.Held) error { return nil })
}

// miniredis answers like a Cluster of one node. That is enough to see the client
// at work.
func Example() {
	node := miniredis.NewMiniRedis()
	if err := node.Start(); err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	redisCluster := &redisc.Cluster{StartupNodes: []string{node.Addr()}}
	defer redisCluster.Close()

	ctx := context.Background()
	nodes, err := cluster.New(redisCluster, cluster.Options{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := lock.NewTopology(nodes, lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	// One hash tag, one slot, one master: renewed in one call.
	first, err := client.Mutex("{order:42}:stock").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	second, err := client.Mutex("{order:42}:payment").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.Valid(), second.Valid(), first.Token() < second.Token())
	fmt.Println(errors.Join(first.Unlock(ctx), second.Unlock(ctx)))

	_, err = client.Mutex("order{42").Lock(ctx)
	fmt.Println(err)
	// Output:
	// true true true
	// <nil>
	// lock: the name "order{42" has a { without a } after it: in a Cluster braces mark the hash tag, use both or none
}
