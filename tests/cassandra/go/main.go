// An application on gocql: the same arguments and the same kinds of output as the one in ../python, with what gocql does
// differently: it prepares nearly every statement, and starts at version 5.
//
// usage: driver HOST PORT VERSION|auto none|lz4|snappy KEYSPACE
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
	"github.com/apache/cassandra-gocql-driver/v2/snappy"
)

const (
	rows     = 5000
	pageSize = 100
)

// account of what was asked for, by kind of request and table.
type asked struct {
	Kind       string `json:"kind"`
	Table      string `json:"table"`
	Requests   int    `json:"requests"`
	Partitions *int   `json:"partitions"`
	// Refused as not prepared: on the wire, and touching nothing.
	Repeated int `json:"repeated"`
}

type application struct {
	session  *gocql.Session
	version  int
	keyspace string
	asked    map[string]*asked
}

func main() {
	host, port, version, compression, keyspace := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
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

	// gocql sets a session's keyspace only when it connects: a first session makes it.
	session, err := cluster.CreateSession()
	check(err)
	for _, statement := range []string{
		"DROP KEYSPACE IF EXISTS " + keyspace,
		"CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
	} {
		check(session.Query(statement).Exec())
	}
	session.Close()
	cluster.Keyspace = keyspace
	session, err = cluster.CreateSession()
	check(err)
	app := &application{session: session, version: cluster.ProtoVersion, keyspace: keyspace, asked: map[string]*asked{}}
	saw("connected", "keyspace", keyspace)
	for _, step := range []func(*application){bound, paging, inLists, batches, conditions, types, scans, preparedAgain, tombstones, errors} {
		step(app)
	}
	session.Close()
	app.print()
}

func bound(app *application) {
	app.define("CREATE TABLE bound (id int PRIMARY KEY, name text, note text)")
	insert := "INSERT INTO bound (id, name, note) VALUES (?, ?, ?)"
	for id := 0; id < 5; id++ {
		app.ask("insert", "bound", 1, insert, id, fmt.Sprint("n", id), "first")
	}
	app.ask("insert", "bound", 1, insert, 2, "null note", nil)
	// Version 3 knows no unset values, and gocql sends them all the same.
	if app.version >= 4 {
		app.ask("insert", "bound", 1, insert, 3, "unset note", gocql.UnsetValue)
	}
	// gocql binds named markers by position in prepared statements.
	app.ask("update", "bound", 1, "UPDATE bound SET note = :note WHERE id = :id", "named marker", 1)
	for id := 0; id < 6; id++ {
		saw("bound", "answer", app.ask("select", "bound", 1, "SELECT id, name, note FROM bound WHERE id = ?", id))
	}
	saw("literal", "answer", app.ask("select", "bound", 1, "SELECT name FROM bound WHERE id = 4"))
	app.ask("delete", "bound", 1, "DELETE FROM bound WHERE id = 0")
}

func paging(app *application) {
	app.define("CREATE TABLE paged (part int, seq int, filler text, PRIMARY KEY (part, seq))")
	for start := 0; start < rows; start += 500 {
		batch := app.session.Batch(gocql.UnloggedBatch)
		for seq := start; seq < start+500; seq++ {
			batch.Query("INSERT INTO paged (part, seq, filler) VALUES (?, ?, ?)", 1, seq, fmt.Sprint("filler ", seq))
		}
		app.count("batch", "paged", 1, 1)
		check(batch.Exec())
	}
	var state []byte
	pages, seen, total := 0, 0, 0
	for {
		iter := app.session.Query("SELECT seq FROM paged WHERE part = ?", 1).PageSize(pageSize).PageState(state).Iter()
		state = iter.PageState()
		var seq int
		for iter.Scan(&seq) {
			seen++
			total += seq
		}
		check(iter.Close())
		pages++
		if len(state) == 0 {
			break
		}
	}
	app.count("select", "paged", pages, pages)
	saw("paging", "pages", pages, "rows", seen, "total", total)
}

func inLists(app *application) {
	app.define("CREATE TABLE listed (id int PRIMARY KEY, v int)")
	app.define("CREATE TABLE pairs (a int, b int, v int, PRIMARY KEY ((a, b)))")
	for id := 0; id < 8; id++ {
		app.ask("insert", "listed", 1, "INSERT INTO listed (id, v) VALUES (?, ?)", id, id*10)
	}
	list := "SELECT id, v FROM listed WHERE id IN ?"
	saw("IN ?", "answer", app.ask("select", "listed", 3, list, []int{1, 2, 2, 3}))
	saw("IN ? of one", "answer", app.ask("select", "listed", 1, list, []int{5}))
	saw("IN (?, ?, ?)", "answer", app.ask("select", "listed", 2, "SELECT id, v FROM listed WHERE id IN (?, ?, ?)", 4, 6, 4))
	saw("IN of literals", "answer", app.ask("select", "listed", 2, "SELECT id, v FROM listed WHERE id IN (1, 2, 1)"))
	app.ask("insert", "pairs", 1, "INSERT INTO pairs (a, b, v) VALUES (?, 1, ?)", 1, 1)
	saw("product", "answer", app.ask("select", "pairs", 4, "SELECT v FROM pairs WHERE a IN ? AND b IN (1, 2)", []int{1, 3, 1}))
}

func batches(app *application) {
	app.define("CREATE TABLE by_name (name text PRIMARY KEY, id int)")
	app.define("CREATE TABLE by_id (id int PRIMARY KEY, name text)")
	app.define("CREATE TABLE counts (id int PRIMARY KEY, n counter)")
	logged := app.session.Batch(gocql.LoggedBatch)
	logged.Query("INSERT INTO by_name (name, id) VALUES (?, ?)", "ann", 1)
	logged.Query("INSERT INTO by_id (id, name) VALUES (1, 'ann')")
	logged.Query("UPDATE by_id SET name = ? WHERE id = ?", "ann again", 1)
	app.count("batch", "by_name", 1, 2)
	check(logged.Exec())
	counter := app.session.Batch(gocql.CounterBatch)
	for _, id := range []int{1, 2, 1} {
		counter.Query("UPDATE counts SET n = n + ? WHERE id = ?", int64(5), id)
	}
	app.count("batch", "counts", 1, 2)
	check(counter.Exec())
	saw("counter", "answer", app.ask("select", "counts", 2, "SELECT id, n FROM counts WHERE id IN (1, 2)"))
	saw("batched", "answer", app.ask("select", "by_id", 1, "SELECT id, name FROM by_id WHERE id = 1"))
}

func conditions(app *application) {
	app.define("CREATE TABLE conditional (id int PRIMARY KEY, v int)")
	insert := "INSERT INTO conditional (id, v) VALUES (?, ?) IF NOT EXISTS"
	saw("applied", "answer", app.ask("insert", "conditional", 1, insert, 1, 10))
	saw("not applied", "answer", app.ask("insert", "conditional", 1, insert, 1, 20))
	saw("compared", "answer", app.ask("update", "conditional", 1, "UPDATE conditional SET v = ? WHERE id = ? IF v = ?", 11, 1, 10))
}

func types(app *application) {
	app.define("CREATE TYPE place (street text, number int)")
	app.define("CREATE TABLE kinds (id int PRIMARY KEY, c_list list<text>, c_set set<int>, c_map map<text, bigint>, " +
		"c_place frozen<place>, c_nested map<int, frozen<list<int>>>, c_blob blob, c_uuid uuid, c_double double)")
	app.ask("insert", "kinds", 1, "INSERT INTO kinds (id, c_list, c_set, c_map, c_place, c_nested, c_blob, c_uuid, c_double) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		1, []string{"b", "a"}, []int{3, 1}, map[string]int64{"one": 1, "two": 2}, map[string]interface{}{"street": "Main", "number": 1},
		map[int][]int{1: {2, 3}}, []byte{0, 255}, gocql.UUID{7}, 0.1)
	saw("types", "answer", app.ask("select", "kinds", 1, "SELECT * FROM kinds WHERE id = ?", 1))
}

func scans(app *application) {
	app.define("CREATE TABLE scanned (id int PRIMARY KEY, name text)")
	for id := 0; id < 20; id++ {
		app.ask("insert", "scanned", 1, "INSERT INTO scanned (id, name) VALUES (?, ?)", id, fmt.Sprint("n", id%5))
	}
	saw("filtering", "answer", app.send("SELECT id FROM scanned WHERE name = ? ALLOW FILTERING", "n3"))
	saw("scan", "answer", app.send("SELECT id, name FROM scanned"))
	saw("aggregate", "answer", app.send("SELECT count(*) FROM scanned"))
	app.asked["scan scanned"] = &asked{Kind: "scan", Table: "scanned", Requests: 3}
}

// The server forgets prepared statements of an altered table; the driver is told so and prepares them again.
func preparedAgain(app *application) {
	app.define("CREATE TABLE altered (id int PRIMARY KEY, v int)")
	app.ask("insert", "altered", 1, "INSERT INTO altered (id, v) VALUES (?, ?)", 1, 1)
	saw("before ALTER", "answer", app.ask("select", "altered", 1, "SELECT id, v FROM altered WHERE id = ?", 1))
	app.define("ALTER TABLE altered ADD w text")
	saw("after ALTER", "answer", app.ask("select", "altered", 1, "SELECT id, v FROM altered WHERE id = ?", 1))
	app.asked["select altered"].Repeated++
}

// The node is told to warn from 10 tombstones on.
func tombstones(app *application) {
	app.define("CREATE TABLE graves (id int, seq int, PRIMARY KEY (id, seq))")
	for seq := 0; seq < 25; seq++ {
		app.ask("delete", "graves", 1, "DELETE FROM graves WHERE id = ? AND seq = ?", 1, seq)
	}
	saw("tombstones", "answer", app.ask("select", "graves", 1, "SELECT seq FROM graves WHERE id = ?", 1))
}

func errors(app *application) {
	app.define("CREATE TABLE faulty (id int PRIMARY KEY, v int)")
	for _, wrong := range []string{
		"SELEC v FROM faulty",
		"SELECT v FROM no_such_table",
		"SELECT v FROM faulty WHERE v = 1",
		"CREATE TABLE faulty (id int PRIMARY KEY)",
	} {
		saw("error", "text", fmt.Sprint(app.session.Query(wrong).Exec()))
	}
	err := app.session.Query("SELECT v FROM faulty WHERE id = 1").Consistency(gocql.Three).Exec()
	saw("error", "text", fmt.Sprint(err))
}

// What a request's answer holds.
type answer struct {
	Rows     []map[string]interface{} `json:"rows"`
	Warnings []string                 `json:"warnings"`
}

// ask sends one request that touches so many partitions.
func (app *application) ask(kind, table string, partitions int, statement string, values ...interface{}) answer {
	app.count(kind, table, 1, partitions)
	return app.send(statement, values...)
}

func (app *application) send(statement string, values ...interface{}) answer {
	iter := app.session.Query(statement, values...).Iter()
	found, err := iter.SliceMap()
	check(err)
	return answer{found, iter.Warnings()}
}

func (app *application) define(statement string) {
	check(app.session.Query(statement).Exec())
}

func (app *application) count(kind, table string, requests, partitions int) {
	account := app.asked[kind+" "+table]
	if account == nil {
		account = &asked{Kind: kind, Table: table, Partitions: new(int)}
		app.asked[kind+" "+table] = account
	}
	account.Requests += requests
	*account.Partitions += partitions
}

func (app *application) print() {
	names := []string{}
	for name := range app.asked {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		line, err := json.Marshal(map[string]*asked{"asked": app.asked[name]})
		check(err)
		fmt.Println(string(line))
	}
}

// saw prints a step with its fields, given as name, value, name, value.
func saw(step string, fields ...interface{}) {
	line := map[string]interface{}{"step": step}
	for index := 0; index < len(fields); index += 2 {
		line[fields[index].(string)] = fields[index+1]
	}
	text, err := json.Marshal(line)
	check(err)
	fmt.Println(string(text))
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
