// franz-go as a client of `python -m tools.fault_recipes`; arguments and output are those of librdkafka_client.py.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	failures = []string{}
	started  = time.Now()
)

func note(err error) {
	var known *kerr.Error
	if errors.As(err, &known) {
		failures = append(failures, known.Message)
	} else {
		failures = append(failures, err.Error())
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	role, server := os.Args[1], os.Args[2]
	limit, err := strconv.ParseFloat(os.Args[3], 64)
	must(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(limit*float64(time.Second)))
	defer cancel()
	found := map[string]any{}
	options := []kgo.Opt{kgo.SeedBrokers(server), kgo.DefaultProduceTopic("t")}
	switch role {
	case "consume":
		options = append(options, kgo.ConsumerGroup("recipe"), kgo.ConsumeTopics("t"),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(time.Second),
			kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) {
				failures = append(failures, "partitions lost")
			}))
	case "transact":
		options = append(options, kgo.TransactionalID("recipe"))
	}
	client, err := kgo.NewClient(options...)
	must(err)
	started = time.Now()
	if role == "consume" {
		values := []string{}
		var first any
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			for _, failed := range fetches.Errors() {
				if !errors.Is(failed.Err, context.DeadlineExceeded) {
					note(failed.Err)
				}
			}
			fetches.EachRecord(func(record *kgo.Record) {
				if first == nil {
					first = time.Since(started).Seconds()
				}
				values = append(values, string(record.Value))
			})
		}
		found["values"], found["first"] = values, first
	} else {
		if role == "transact" {
			must(client.BeginTransaction())
		}
		done := make(chan error, 10)
		for number := range 10 {
			record := kgo.StringRecord(fmt.Sprintf("record-%d", number))
			client.Produce(context.Background(), record, func(_ *kgo.Record, err error) { done <- err })
		}
		delivered, failed := 0, 0
		for range 10 {
			select {
			case err := <-done:
				if err == nil {
					delivered++
				} else {
					failed++
					note(err)
				}
			case <-ctx.Done():
			}
		}
		if role == "transact" {
			if err := client.EndTransaction(ctx, kgo.TryCommit); err != nil {
				note(err)
			}
		}
		found["delivered"], found["failed"] = delivered, failed
	}
	found["seconds"], found["errors"] = time.Since(started).Seconds(), failures
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "github.com/twmb/franz-go" {
				found["version"] = fmt.Sprintf("franz-go %s, %s", module.Version, runtime.Version())
			}
		}
	}
	must(json.NewEncoder(os.Stdout).Encode(found))
}
