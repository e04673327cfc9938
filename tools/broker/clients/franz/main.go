// Scenario `settings` of franz-go: clients of many settings, one after the other (ledger.py tells the arguments).
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const line = "a line of a log, with words and numbers like 42; "

type job struct {
	Name       string
	Role       string
	Settings   map[string]any
	Partitions int32
	Records    int
	Size       int
	Seconds    float64
}

type facts struct {
	Topics    []string `json:"topics"`
	ClientIDs []string `json:"client_ids"`
}

func milliseconds(value any) time.Duration { return time.Duration(value.(float64)) * time.Millisecond }

func flag(option kgo.Opt) func(any) kgo.Opt { return func(any) kgo.Opt { return option } }

func named[T any](option func(T) kgo.Opt, values map[string]T) func(any) kgo.Opt {
	return func(value any) kgo.Opt { return option(values[value.(string)]) }
}

func lasting[O kgo.Opt](option func(time.Duration) O) func(any) kgo.Opt {
	return func(value any) kgo.Opt { return option(milliseconds(value)) }
}

func sized[O kgo.Opt](option func(int32) O) func(any) kgo.Opt {
	return func(value any) kgo.Opt { return option(int32(value.(float64))) }
}

func text[O kgo.Opt](option func(string) O) func(any) kgo.Opt {
	return func(value any) kgo.Opt { return option(value.(string)) }
}

// Options of kgo by name; times are milliseconds.
var settings = map[string]func(any) kgo.Opt{
	"RequiredAcks": named(func(acks kgo.Acks) kgo.Opt { return kgo.RequiredAcks(acks) },
		map[string]kgo.Acks{"NoAck": kgo.NoAck(), "LeaderAck": kgo.LeaderAck()}),
	"DisableIdempotentWrite": flag(kgo.DisableIdempotentWrite()),
	"ProduceRequestTimeout":  lasting(kgo.ProduceRequestTimeout),
	"ProducerBatchCompression": named(func(codec kgo.CompressionCodec) kgo.Opt { return kgo.ProducerBatchCompression(codec) },
		map[string]kgo.CompressionCodec{"zstd": kgo.ZstdCompression()}),
	"TransactionalID":        text(kgo.TransactionalID),
	"TransactionTimeout":     lasting(kgo.TransactionTimeout),
	"ConsumerGroup":          text(kgo.ConsumerGroup),
	"InstanceID":             text(kgo.InstanceID),
	"Rack":                   text(kgo.Rack),
	"SessionTimeout":         lasting(kgo.SessionTimeout),
	"RebalanceTimeout":       lasting(kgo.RebalanceTimeout),
	"HeartbeatInterval":      lasting(kgo.HeartbeatInterval),
	"FetchMaxWait":           lasting(kgo.FetchMaxWait),
	"FetchMinBytes":          sized(kgo.FetchMinBytes),
	"FetchMaxBytes":          sized(kgo.FetchMaxBytes),
	"FetchMaxPartitionBytes": sized(kgo.FetchMaxPartitionBytes),
	"FetchIsolationLevel":    flag(kgo.FetchIsolationLevel(kgo.ReadCommitted())),
	"Balancers":              flag(kgo.Balancers(kgo.RangeBalancer())),
	"ConsumeResetOffset":     flag(kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd())),
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func produce(ctx context.Context, client *kgo.Client, topic string, each job) {
	_, transactional := each.Settings["TransactionalID"]
	if transactional {
		must(client.BeginTransaction())
	}
	value := []byte(strings.Repeat(line, each.Size/len(line)+1)[:each.Size])
	for range each.Records {
		client.Produce(ctx, &kgo.Record{Topic: topic, Value: value}, func(_ *kgo.Record, err error) { must(err) })
	}
	must(client.Flush(ctx))
	if transactional {
		must(client.EndTransaction(ctx, kgo.TryCommit))
	}
}

func main() {
	scenario, servers := os.Args[2], strings.Split(os.Args[3], ",")
	var jobs []job
	must(json.Unmarshal([]byte(os.Args[5]), &jobs))
	ctx := context.Background()
	found := facts{ClientIDs: []string{scenario + "-admin"}}
	admin, err := kadm.NewOptClient(kgo.SeedBrokers(servers...), kgo.ClientID(found.ClientIDs[0]))
	must(err)
	for _, each := range jobs {
		topic := scenario + "-" + each.Name
		found.Topics, found.ClientIDs = append(found.Topics, topic), append(found.ClientIDs, topic)
		created, err := admin.CreateTopics(ctx, each.Partitions, 1, nil, topic)
		must(err)
		must(created.Error())
		options := []kgo.Opt{kgo.SeedBrokers(servers...), kgo.ClientID(topic)}
		for name, value := range each.Settings {
			options = append(options, settings[name](value))
		}
		if each.Role == "consumer" {
			options = append(options, kgo.ConsumeTopics(topic))
		}
		client, err := kgo.NewClient(options...)
		must(err)
		if each.Role == "consumer" {
			until, cancel := context.WithTimeout(ctx, time.Duration(each.Seconds*float64(time.Second)))
			for until.Err() == nil {
				client.PollFetches(until)
			}
			cancel()
		} else {
			produce(ctx, client, topic, each)
		}
		client.Close()
	}
	admin.Close()
	version := "?"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "github.com/twmb/franz-go" {
				version = strings.TrimPrefix(module.Version, "v")
			}
		}
	}
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"clients": "franz-go " + version,
		"what":    "franz-go: clients of many settings, one after the other",
		"facts":   found,
	}))
}
