// Package client runs the scenario of ../README.md over gocql, at each protocol version.
package client

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
	"github.com/apache/cassandra-gocql-driver/v2/snappy"
)

// app is one protocol version's session and keyspace, on the server that the environment names.
type app struct {
	*testing.T
	version  int
	keyspace string
	session  *gocql.Session
}

func cluster(version int) *gocql.ClusterConfig {
	config := gocql.NewCluster(os.Getenv("CQL_ADDRESS"))
	config.Port, _ = strconv.Atoi(os.Getenv("CQL_PORT"))
	config.ProtoVersion = version
	config.Timeout = 20 * time.Second
	config.ConnectTimeout = 20 * time.Second
	config.Consistency = gocql.One
	config.ReconnectInterval = 200 * time.Millisecond
	config.ReconnectionPolicy = &gocql.ConstantReconnectionPolicy{MaxRetries: 100, Interval: 200 * time.Millisecond}
	return config
}

func open(t *testing.T, version int) *app {
	a := &app{T: t, version: version, keyspace: fmt.Sprintf("go_v%d", version)}
	first, err := cluster(version).CreateSession()
	a.must(err)
	a.must(first.Query("DROP KEYSPACE IF EXISTS " + a.keyspace).Exec())
	a.must(first.Query("CREATE KEYSPACE " + a.keyspace +
		" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").Exec())
	first.Close()
	config := cluster(version)
	config.Keyspace = a.keyspace
	a.session, err = config.CreateSession()
	a.must(err)
	t.Cleanup(func() {
		a.must(a.session.Query("DROP KEYSPACE " + a.keyspace).Exec())
		a.session.Close()
	})
	return a
}

func (a *app) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

func (a *app) exec(query string, values ...any) {
	a.Helper()
	if err := a.session.Query(query, values...).Exec(); err != nil {
		a.Fatalf("%s: %v", query, err)
	}
}

// column is the first column of every row.
func column[V any](a *app, query string, values ...any) []V {
	a.Helper()
	var all []V
	iterator := a.session.Query(query, values...).Iter()
	var value V
	for iterator.Scan(&value) {
		all = append(all, value)
	}
	if err := iterator.Close(); err != nil {
		a.Fatalf("%s: %v", query, err)
	}
	return all
}

// one is the only column of the only row.
func one[V any](a *app, query string, values ...any) V {
	a.Helper()
	all := column[V](a, query, values...)
	if len(all) != 1 {
		a.Fatalf("%s: %d rows", query, len(all))
	}
	return all[0]
}

func equal[V comparable](a *app, got, want V, what string) {
	a.Helper()
	if got != want {
		a.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// restartServer asks the harness to stop the server and to start it again.
func restartServer(a *app) {
	output, err := exec.Command("sh", "-c", os.Getenv("CQL_RESTART")).CombinedOutput()
	if err != nil {
		a.Fatalf("the server did not restart: %v\n%s", err, output)
	}
}

func eventually(a *app, what string, condition func() bool) {
	a.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if condition() {
			return
		}
	}
	a.Fatalf("after 60 s: %s", what)
}

// compressor is the algorithm tried at a version: v5 knows LZ4 only.
func compressor(version int) gocql.Compressor {
	if version >= 5 {
		return lz4.LZ4Compressor{}
	}
	return snappy.SnappyCompressor{}
}
