package cluster_test

import (
	"context"
	"log"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
)

func ExampleNew() {
	ctx := context.Background()
	source, err := cluster.New(&redisc.Cluster{
		StartupNodes: []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"},
		DialOptions:  []redis.DialOption{redis.DialPassword("secret")},
	}, cluster.Options{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := lock.New(source, lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	_ = client.Mutex("order:42").Do(ctx, func(context.Context) error { return nil })
}
