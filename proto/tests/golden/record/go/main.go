// The session of gocql that is recorded: what its API can make it say.
//
// usage: session HOST PORT VERSION|auto none|lz4|snappy FOLDER
//
// Each line of FOLDER/tables.cql is sent as it is, refused ones too; without compression those of FOLDER/more.cql follow. A
// session that negotiates its version does nothing beyond its first query.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
	"github.com/apache/cassandra-gocql-driver/v2/snappy"
)

func main() {
	host, port, version, compression, folder := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	cluster := gocql.NewCluster(host)
	cluster.Port = number(port)
	if version != "auto" {
		cluster.ProtoVersion = number(version)
	}
	switch compression {
	case "lz4":
		cluster.Compressor = lz4.LZ4Compressor{}
	case "snappy":
		cluster.Compressor = snappy.SnappyCompressor{}
	}
	cluster.Timeout = time.Minute
	cluster.ConnectTimeout = time.Minute
	cluster.Consistency = gocql.One
	cluster.NumConns = 1
	cluster.Metadata.CacheMode = gocql.Disabled

	// gocql sets a session's keyspace only when it connects: a first session makes it.
	session, err := cluster.CreateSession()
	check(err)
	if version == "auto" {
		ask(session.Query("SELECT release_version FROM system.local"))
		session.Close()
		return
	}
	tables := lines(folder, "tables.cql")
	for _, statement := range tables[:2] {
		ask(session.Query(statement))
	}
	session.Close()
	cluster.Keyspace = "golden"
	session, err = cluster.CreateSession()
	check(err)
	for _, statement := range tables[2:] {
		ask(session.Query(statement))
	}
	bound(session, cluster.ProtoVersion)
	if compression == "none" {
		for _, statement := range lines(folder, "more.cql") {
			ask(session.Query(statement))
		}
		batches(session)
		options(session, cluster.ProtoVersion)
	}
	if compression == "lz4" {
		// Longer than a segment of version 5.
		ask(session.Query("INSERT INTO queue (k, t, v) VALUES ('long', 9, ?)", strings.Repeat("long ", 30_000)))
		ask(session.Query("SELECT v FROM queue WHERE k = 'long'"))
	}
	ask(session.Query("DROP KEYSPACE golden"))
	session.Close()
}

func bound(session *gocql.Session, version int) {
	insert := "INSERT INTO bound (a, b, c, v, s) VALUES (?, ?, ?, ?, ?)"
	for c := 0; c < 12; c++ {
		ask(session.Query(insert, 2, "paged", c, strings.Repeat("v", c), nil))
	}
	if version >= 4 {
		ask(session.Query(insert, 2, "unset", 1, gocql.UnsetValue, gocql.UnsetValue))
	}
	page := session.Query("SELECT a, b, c, v FROM bound WHERE a = ? AND b = ?", 2, "paged").PageSize(5)
	ask(page)
	ask(session.Query("SELECT * FROM bound WHERE a IN ? AND b = :b", []int{1, 2, 2}, "first").Consistency(gocql.LocalQuorum))
	ask(session.Query("SELECT * FROM every_type WHERE k = ?", 1))
	// The node forgets what the change concerns: version 4 and later hear UNPREPARED.
	ask(session.Query("ALTER TABLE bound ADD extra int"))
	ask(session.Query("SELECT a, b, c, v FROM bound WHERE a = ? AND b = ?", 2, "paged"))
}

func batches(session *gocql.Session) {
	unlogged := session.Batch(gocql.UnloggedBatch).Consistency(gocql.One)
	for a := 0; a < 11; a++ {
		unlogged.Query("INSERT INTO bound (a, b, c, v) VALUES (?, ?, ?, ?)", a, "batch", a, "v")
	}
	unlogged.Query("INSERT INTO bound (a, b, c) VALUES (7, 'text', 1)")
	report(unlogged.Exec())
	logged := session.Batch(gocql.LoggedBatch).SerialConsistency(gocql.LocalSerial)
	logged.Query("DELETE FROM queue WHERE k = 'a'")
	logged.Query("DELETE FROM bound WHERE a = 0 AND b = 'batch'")
	report(logged.Exec())
	counters := session.Batch(gocql.CounterBatch)
	counters.Query("UPDATE counted SET n = n - ? WHERE k = ?", int64(1), 1)
	report(counters.Exec())
}

func options(session *gocql.Session, version int) {
	ask(session.Query("SELECT * FROM bound").Consistency(gocql.Two))
	ask(session.Query("SELECT n FROM counted").Trace(gocql.NewTraceWriter(session, os.Stdout)))
	if version >= 4 {
		ask(session.Query("SELECT n FROM counted").CustomPayload(map[string][]byte{"key": {0, 1}}))
	}
	if version >= 5 {
		ask(session.Query("SELECT n FROM counted").SetKeyspace("golden").WithNowInSeconds(1_700_000_000))
	}
}

// ask reads all rows; what the node refuses is part of the recording.
func ask(query *gocql.Query) {
	rows := query.Iter().Scanner()
	for rows.Next() {
	}
	report(rows.Err())
}

func lines(folder, name string) []string {
	text, err := os.ReadFile(folder + "/" + name)
	check(err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func report(err error) {
	if err != nil {
		fmt.Println(err)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
