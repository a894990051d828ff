package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"gopkg.in/inf.v0"
)

func TestApplication(t *testing.T) {
	steps := []struct {
		name string
		run  func(*app)
	}{
		{"native types", nativeTypes},
		{"collections, tuples, user types", collections},
		{"rows, statics, deletes", rows},
		{"prepared: named, unset, null", preparedValues},
		{"prepared statement after ALTER TABLE", afterAlter},
		{"TTL and timestamps", timeToLive},
		{"batches", batches},
		{"10,000 rows by pages", paging},
		{"errors", serverErrors},
		{"schema of another session", schemaMetadata},
		{"compression", compression},
		{"restart", restart},
	}
	for _, version := range []int{3, 4, 5} {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			a := open(t, version)
			for _, step := range steps {
				t.Run(step.name, func(t *testing.T) {
					again := *a
					again.T = t
					step.run(&again)
				})
			}
		})
	}
}

func nativeTypes(a *app) {
	uuid := gocql.MustRandomUUID()
	values := map[string]any{
		"ascii": "abc", "bigint": int64(math.MinInt64), "blob": []byte{0, 255}, "boolean": true,
		"date": time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), "decimal": inf.NewDec(-12345, 3), "double": 1.5,
		"float": float32(-2.5), "inet": net.ParseIP("2001:db8::1"), "int": math.MaxInt32, "smallint": int16(-300),
		"text": "μῆνιν 🐍", "time": 3723 * time.Second, "timestamp": time.UnixMilli(1795222923456).UTC(),
		"timeuuid": gocql.TimeUUID(), "tinyint": int8(-7), "uuid": uuid, "varint": new(big.Int).Lsh(big.NewInt(-1), 200),
		"duration": gocql.Duration{Months: 14, Days: 3, Nanoseconds: 5},
	}
	if a.version < 5 {
		delete(values, "duration") // gocql knows it from v5 on
	}
	if a.version < 4 {
		for _, name := range []string{"date", "time", "smallint", "tinyint"} {
			delete(values, name) // v3 has no codes for them
		}
	}
	for name, value := range values {
		a.exec(fmt.Sprintf("CREATE TABLE native_%s (k int PRIMARY KEY, v %s)", name, name))
		a.exec(fmt.Sprintf("INSERT INTO native_%s (k, v) VALUES (?, ?)", name), 1, value)
		got := reflect.New(reflect.TypeOf(value))
		a.must(a.session.Query(fmt.Sprintf("SELECT v FROM native_%s WHERE k = 1", name)).Scan(got.Interface()))
		if !same(got.Elem().Interface(), value) {
			a.Fatalf("%s: got %v, want %v", name, got.Elem().Interface(), value)
		}
		a.exec(fmt.Sprintf("INSERT INTO native_%s (k, v) VALUES (?, ?)", name), 1, nil)
		null := reflect.New(reflect.PointerTo(reflect.TypeOf(value)))
		a.must(a.session.Query(fmt.Sprintf("SELECT v FROM native_%s WHERE k = 1", name)).Scan(null.Interface()))
		equal(a, null.Elem().IsNil(), true, name+" is null")
	}
}

func same(got, want any) bool {
	switch want := want.(type) {
	case *big.Int:
		return got.(*big.Int).Cmp(want) == 0
	case *inf.Dec:
		return got.(*inf.Dec).Cmp(want) == 0
	case net.IP:
		return got.(net.IP).Equal(want)
	case time.Time:
		return got.(time.Time).Equal(want)
	case []byte:
		return bytes.Equal(got.([]byte), want)
	}
	return got == want
}

type place struct {
	Street string   `cql:"street"`
	Zip    int      `cql:"zip"`
	Tags   []string `cql:"tags"`
}

func collections(a *app) {
	a.exec("CREATE TYPE place (street text, zip int, tags frozen<set<text>>)")
	a.exec("CREATE TABLE gathered (id int PRIMARY KEY, l list<int>, s set<text>, m map<text, int>, fl frozen<list<text>>," +
		" t tuple<int, text>, p place, fp frozen<place>)")
	hill := place{"Hill", 7, []string{"a", "b"}}
	a.exec("INSERT INTO gathered (id, l, s, m, fl, t, p, fp) VALUES (?, ?, ?, ?, ?, (1, 'one'), ?, ?)",
		1, []int{3, 1, 3}, []string{"x", "y"}, map[string]int{"k": 1}, []string{"f"}, hill, hill)
	var list []int
	var set, frozen []string
	var entries map[string]int
	var loose, tight place
	var number int
	var text string
	a.must(a.session.Query("SELECT l, s, m, fl, t, p, fp FROM gathered WHERE id = 1").
		Scan(&list, &set, &entries, &frozen, &number, &text, &loose, &tight))
	if !reflect.DeepEqual(list, []int{3, 1, 3}) || !reflect.DeepEqual(set, []string{"x", "y"}) || entries["k"] != 1 ||
		!reflect.DeepEqual(frozen, []string{"f"}) || number != 1 || text != "one" || !reflect.DeepEqual(loose, hill) || !reflect.DeepEqual(tight, hill) {
		a.Fatal(list, set, entries, frozen, number, text, loose, tight)
	}
	a.exec("UPDATE gathered SET l = l + ?, s = s - ?, m[?] = ?, p.zip = ? WHERE id = 1", []int{9}, []string{"x"}, "z", 26, 8)
	a.exec("DELETE m['k'], l[0] FROM gathered WHERE id = 1")
	entries = nil
	a.must(a.session.Query("SELECT l, s, m, p FROM gathered WHERE id = 1").Scan(&list, &set, &entries, &loose))
	if !reflect.DeepEqual(list, []int{1, 3, 9}) || !reflect.DeepEqual(set, []string{"y"}) || len(entries) != 1 || entries["z"] != 26 || loose.Zip != 8 {
		a.Fatal(list, set, entries, loose)
	}
}

func rows(a *app) {
	a.exec("CREATE TABLE songs (bard text, album int, track int, title text, genre text static, PRIMARY KEY ((bard, album), track))")
	for track := 0; track < 10; track++ {
		a.exec("INSERT INTO songs (bard, album, track, title) VALUES (?, ?, ?, ?)", "a", 1, track, "t")
	}
	a.exec("UPDATE songs SET genre = ? WHERE bard = ? AND album = ?", "epic", "a", 1)
	a.exec("DELETE FROM songs WHERE bard = ? AND album = ? AND track > ?", "a", 1, 7)
	a.exec("DELETE FROM songs WHERE bard = ? AND album = ? AND track = ?", "a", 1, 3)
	tracks := column[int](a, "SELECT track FROM songs WHERE bard = 'a' AND album = 1 ORDER BY track DESC")
	if !reflect.DeepEqual(tracks, []int{7, 6, 5, 4, 2, 1, 0}) {
		a.Fatal(tracks)
	}
	equal(a, one[string](a, "SELECT DISTINCT genre FROM songs WHERE bard = 'a' AND album = 1"), "epic", "static")
	equal(a, one[int64](a, "SELECT count(*) FROM songs WHERE bard = 'a' AND album = 1"), 7, "count")
}

func preparedValues(a *app) {
	a.exec("CREATE TABLE prepared (k int PRIMARY KEY, a text, b int)")
	a.exec("INSERT INTO prepared (k, a, b) VALUES (:key, :first, :second)",
		gocql.NamedValue("key", 1), gocql.NamedValue("first", "kept"), gocql.NamedValue("second", 3))
	equal(a, one[int](a, "SELECT b FROM prepared WHERE k = 1"), 3, "named value")
	if a.version >= 4 {
		a.exec("INSERT INTO prepared (k, a, b) VALUES (?, ?, ?)", 1, gocql.UnsetValue, 4)
		equal(a, one[string](a, "SELECT a FROM prepared WHERE k = 1"), "kept", "unset leaves")
	}
	a.exec("INSERT INTO prepared (k, a, b) VALUES (?, ?, ?)", 1, nil, 5)
	equal(a, one[*string](a, "SELECT a FROM prepared WHERE k = 1") == nil, true, "null deletes")
}

func afterAlter(a *app) {
	a.exec("CREATE TABLE altered (k int PRIMARY KEY, a int)")
	a.exec("INSERT INTO altered (k, a) VALUES (?, ?)", 1, 10)
	row := func() map[string]any {
		got := map[string]any{}
		a.must(a.session.Query("SELECT * FROM altered WHERE k = ?", 1).MapScan(got))
		return got
	}
	equal(a, len(row()), 2, "columns before")
	a.exec("ALTER TABLE altered ADD b text")
	a.exec("UPDATE altered SET b = ? WHERE k = ?", "new", 1)
	equal(a, one[string](a, "SELECT b FROM altered WHERE k = ?", 1), "new", "new column")
	if a.version >= 5 {
		equal(a, row()["b"].(string), "new", "columns after, by the metadata id")
	}
}

func timeToLive(a *app) {
	a.exec("CREATE TABLE timed (k int PRIMARY KEY, v int)")
	a.exec("INSERT INTO timed (k, v) VALUES (?, ?) USING TTL ?", 1, 1, 2)
	a.exec("INSERT INTO timed (k, v) VALUES (2, 10) USING TIMESTAMP 1000")
	a.exec("INSERT INTO timed (k, v) VALUES (2, 9) USING TIMESTAMP 999")
	a.must(a.session.Query("INSERT INTO timed (k, v) VALUES (3, 1)").WithTimestamp(4242).Exec())
	equal(a, one[int](a, "SELECT v FROM timed WHERE k = 2"), 10, "the later write")
	equal(a, one[int64](a, "SELECT writetime(v) FROM timed WHERE k = 2"), 1000, "writetime")
	equal(a, one[int64](a, "SELECT writetime(v) FROM timed WHERE k = 3"), 4242, "timestamp of the request")
	if left := one[int](a, "SELECT ttl(v) FROM timed WHERE k = 1"); left < 1 || left > 2 {
		a.Fatal("ttl", left)
	}
	time.Sleep(3 * time.Second)
	equal(a, len(column[int](a, "SELECT v FROM timed WHERE k = 1")), 0, "expired")
}

func batches(a *app) {
	a.exec("CREATE TABLE batched (k int, c int, v text, PRIMARY KEY (k, c))")
	for _, kind := range []gocql.BatchType{gocql.LoggedBatch, gocql.UnloggedBatch} {
		batch := a.session.Batch(kind).WithTimestamp(50)
		for c := 0; c < 20; c++ {
			batch.Query("INSERT INTO batched (k, c, v) VALUES (?, ?, ?)", int(kind), c, "v")
		}
		batch.Query("DELETE FROM batched WHERE k = ? AND c = ?", int(kind), 100)
		a.must(batch.Exec())
		times := column[int64](a, "SELECT writetime(v) FROM batched WHERE k = ?", int(kind))
		equal(a, len(times), 20, "rows of the batch")
		equal(a, times[7], 50, "timestamp of the batch")
	}
}

func paging(a *app) {
	a.exec("CREATE TABLE wide (k int, c int, v text, PRIMARY KEY (k, c))")
	var group sync.WaitGroup
	failures := make(chan error, 16)
	for worker := 0; worker < 16; worker++ {
		group.Add(1)
		go func(first int) {
			defer group.Done()
			for c := first; c < 10_000; c += 16 {
				if err := a.session.Query("INSERT INTO wide (k, c, v) VALUES (?, ?, ?)", 1, c, "value").Exec(); err != nil {
					failures <- err
					return
				}
			}
		}(worker)
	}
	group.Wait()
	close(failures)
	a.must(<-failures)
	next := 0
	iterator := a.session.Query("SELECT c FROM wide WHERE k = ?", 1).PageSize(777).Iter()
	for c := 0; iterator.Scan(&c); next++ {
		equal(a, c, next, "row in order")
	}
	a.must(iterator.Close())
	equal(a, next, 10_000, "rows")
	var state []byte
	count, pages := 0, 0
	for {
		iterator := a.session.Query("SELECT c FROM wide WHERE k = ?", 1).PageSize(999).PageState(state).Iter()
		count += iterator.NumRows()
		state = iterator.PageState()
		a.must(iterator.Close())
		if pages++; len(state) == 0 {
			break
		}
	}
	equal(a, count, 10_000, "rows by paging state")
	equal(a, pages, 11, "pages")
}

func serverErrors(a *app) {
	a.exec("CREATE TABLE twice (k int PRIMARY KEY)")
	for query, code := range map[string]int{
		"SELEC":                                  0x2000,
		"SELECT * FROM missing":                  0x2200,
		"SELECT nope FROM system.local":          0x2200,
		"CREATE TABLE twice (k int PRIMARY KEY)": 0x2400,
		"CREATE KEYSPACE x WITH replication = {'class': 'Nowhere'}": 0x2300,
	} {
		var failure gocql.RequestError
		if err := a.session.Query(query).Exec(); !errors.As(err, &failure) || failure.Code() != code {
			a.Fatalf("%s: %v, want %#x", query, err, code)
		}
	}
}

func schemaMetadata(a *app) {
	config := cluster(a.version)
	config.Keyspace = a.keyspace
	other, err := config.CreateSession()
	a.must(err)
	defer other.Close()
	has := func(table, column string) bool {
		metadata, err := a.session.KeyspaceMetadata(a.keyspace)
		a.must(err)
		found := metadata.Tables[table]
		return found != nil && (column == "" || found.Columns[column] != nil)
	}
	equal(a, has("events", ""), false, "the table is not there yet")
	a.must(other.Query("CREATE TABLE events (k int PRIMARY KEY)").Exec())
	eventually(a, "the table is seen", func() bool { return has("events", "k") })
	a.must(other.Query("ALTER TABLE events ADD v int").Exec())
	eventually(a, "the column is seen", func() bool { return has("events", "v") })
	a.must(other.Query("DROP TABLE events").Exec())
	eventually(a, "the table is gone", func() bool { return !has("events", "") })
	a.must(a.session.AwaitSchemaAgreement(context.Background()))
}

func compression(a *app) {
	config := cluster(a.version)
	config.Keyspace = a.keyspace
	config.Compressor = compressor(a.version)
	session, err := config.CreateSession()
	a.must(err)
	defer session.Close()
	text := strings.Repeat("ab", 150_000)
	a.must(session.Query("CREATE TABLE squeezed (k int PRIMARY KEY, v text)").Exec())
	a.must(session.Query("INSERT INTO squeezed (k, v) VALUES (?, ?)", 1, text).Exec())
	var got string
	a.must(session.Query("SELECT v FROM squeezed WHERE k = ?", 1).Scan(&got))
	equal(a, got == text, true, "compressed text")
}

func restart(a *app) {
	a.exec("CREATE TABLE lasting (k int PRIMARY KEY, v text)")
	for k := 0; k < 300; k++ {
		a.exec("INSERT INTO lasting (k, v) VALUES (?, ?)", k, fmt.Sprint("before ", k))
	}
	restartServer(a)
	eventually(a, "a row is read again", func() bool {
		var got string
		return a.session.Query("SELECT v FROM lasting WHERE k = ?", 1).Scan(&got) == nil
	})
	for k := 0; k < 300; k++ {
		equal(a, one[string](a, "SELECT v FROM lasting WHERE k = ?", k), fmt.Sprint("before ", k), "row after the restart")
	}
	a.exec("INSERT INTO lasting (k, v) VALUES (?, ?)", 1, "after")
	equal(a, one[string](a, "SELECT v FROM lasting WHERE k = ?", 1), "after", "write after the restart")
}
