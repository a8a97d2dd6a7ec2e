package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"sort"
	"strings"
	"sync"

	"gopkg.in/inf.v0"
)

var checks = []struct {
	name    string
	perform func(*application) interface{}
}{
	{"connect", connect},
	{"ddl", ddl},
	{"simple", simple},
	{"prepared", prepared},
	{"named", named},
	{"batch", batches},
	{"paging", paging},
	{"in", inList},
	{"lwt", conditions},
	{"types", types},
	{"vector", vectors},
	{"blob", blob},
	{"null", null},
	{"unset", unsetValue},
	{"tracing", tracing},
	{"warnings", warnings},
	{"error-syntax", fails("SELEC name FROM t")},
	{"error-invalid", fails("SELECT name FROM no_such_table", "SELECT id FROM t WHERE name = 'x'")},
	{"error-configuration", fails("CREATE KEYSPACE wrong WITH replication = {'class': 'NoSuchStrategy'}")},
	{"error-exists", fails("CREATE TABLE t (id int PRIMARY KEY)",
		"CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")},
	{"error-unavailable", errorUnavailable},
	{"error-function", errorFunction},
	{"error-read-failure", errorReadFailure},
	{"error-unauthorized", errorUnauthorized},
	{"password", wrongPassword},
	{"use", use},
	{"keyspace-of-request", keyspaceOfRequest},
	{"prepared-again", preparedAgain},
	{"schema-events", schemaEvents},
	{"token-aware", func(app *application) interface{} { return app.tokenAware("keyed") }},
	{"in-flight", inFlight},
	{"connections", connections},
	{"outage", outage},
	{"reconnect", reconnect},
}

func connect(app *application) interface{} {
	cluster := app.configure(false)
	app.hosts = watching(cluster.PoolConfig.HostSelectionPolicy)
	cluster.PoolConfig.HostSelectionPolicy = app.hosts
	app.plain = app.open(cluster)
	eventually("all nodes are up", func() bool { return len(app.hosts.those(true)) == app.nodes })
	return app.hosts.those(true)
}

func ddl(app *application) interface{} {
	own := app.keyspace + "_own"
	check(app.plain.Query(fmt.Sprintf("CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %s}",
		own, app.arguments["replication"])).Exec())
	check(app.plain.Query("CREATE TABLE " + app.keyspace + ".t (id int PRIMARY KEY, name text, note text)").Exec())
	check(agree(app.plain))
	cluster := app.configure(false)
	app.hosts = watching(cluster.PoolConfig.HostSelectionPolicy)
	cluster.PoolConfig.HostSelectionPolicy = app.hosts
	cluster.Keyspace = app.keyspace
	app.session = app.open(cluster)
	eventually("all nodes are up", func() bool { return len(app.hosts.those(true)) == app.nodes })
	found, err := app.session.KeyspaceMetadata(own)
	check(err)
	return []interface{}{found.Name, app.columns("t")}
}

// columns of a table as the driver knows it; none if it does not.
func (app *application) columns(table string) []string {
	found := []string{}
	keyspace, err := app.session.KeyspaceMetadata(app.keyspace)
	check(err)
	if keyspace.Tables[table] != nil {
		for name := range keyspace.Tables[table].Columns {
			found = append(found, name)
		}
	}
	sort.Strings(found)
	return found
}

// gocql prepares it all the same.
func simple(app *application) interface{} {
	app.do("INSERT INTO t (id, name, note) VALUES (1, 'it''s', 'me')")
	return app.rows("SELECT id, name, note FROM t WHERE id = 1")
}

func prepared(app *application) interface{} {
	found := []interface{}{}
	for id := 0; id < 10; id++ {
		app.do("INSERT INTO t (id, name, note) VALUES (?, ?, ?)", id, fmt.Sprint("n", id), strings.Repeat("x", id))
	}
	for id := 0; id < 10; id++ {
		found = append(found, app.rows("SELECT id, name, note FROM t WHERE id = ?", id))
	}
	return found
}

// gocql binds named markers by position in prepared statements.
func named(app *application) interface{} { return app.rows("SELECT name FROM t WHERE id = :id", 4) }

func (app *application) batch(kind batchType, add map[string][][]interface{}) {
	batch := app.session.NewBatch(kind)
	for statement, rows := range add {
		for _, values := range rows {
			batch.Query(statement, values...)
		}
	}
	check(app.session.ExecuteBatch(batch))
}

func batches(app *application) interface{} {
	for index, kind := range []batchType{logged, unlogged} {
		app.batch(kind, map[string][][]interface{}{
			"INSERT INTO t (id, name) VALUES (?, ?)":                                 {{20, fmt.Sprint("batch ", index)}, {21, "twice"}},
			fmt.Sprintf("INSERT INTO t (id, name) VALUES (%d, 'literal')", 22+index): {{}},
		})
	}
	app.batch(counters, map[string][][]interface{}{"UPDATE counts SET n = n + ? WHERE id = ?": {{int64(5), 1}, {int64(5), 2}, {int64(5), 1}}})
	return []interface{}{app.rows("SELECT id, name FROM t WHERE id IN (20, 21, 22, 23)"), app.rows("SELECT id, n FROM counts WHERE id IN (1, 2)")}
}

func paging(app *application) interface{} {
	for start := 0; start < 1050; start += 350 {
		values := [][]interface{}{}
		for seq := start; seq < start+350; seq++ {
			values = append(values, []interface{}{seq})
		}
		app.batch(unlogged, map[string][][]interface{}{"INSERT INTO paged (part, seq) VALUES (1, ?)": values})
	}
	pages, total := []int{}, 0
	var state []byte
	for {
		iter := app.session.Query("SELECT seq FROM paged WHERE part = ?", 1).PageSize(100).PageState(state).Iter()
		state = iter.PageState()
		pages = append(pages, iter.NumRows())
		var seq int
		for iter.Scan(&seq) {
			total += seq
		}
		check(iter.Close())
		if len(state) == 0 {
			return []interface{}{pages, total}
		}
	}
}

func inList(app *application) interface{} {
	return []interface{}{
		app.rows("SELECT id, name FROM t WHERE id IN ?", []int{1, 2, 2, 3}),
		app.rows("SELECT id FROM t WHERE id IN (4, 5)"),
	}
}

func conditions(app *application) interface{} {
	insert := "INSERT INTO t (id, name) VALUES (?, ?) IF NOT EXISTS"
	found := []interface{}{}
	for _, name := range []string{"first", "second"} {
		row := map[string]interface{}{}
		applied, err := app.session.Query(insert, 100, name).MapScanCAS(row)
		check(err)
		found = append(found, applied, row)
	}
	row := map[string]interface{}{}
	applied, err := app.session.Query("UPDATE t SET name = ? WHERE id = ? IF name = ?", "third", 100, "first").MapScanCAS(row)
	check(err)
	return append(found, applied, row, app.rows("SELECT name FROM t WHERE id = 100"))
}

// gocql cannot bind a tuple as a whole.
func types(app *application) interface{} {
	app.do("INSERT INTO kinds (id, l, s, m, n, t, u, d, v, i) VALUES (?, ?, ?, ?, ?, (?, ?), ?, ?, ?, ?)",
		1, []string{"b", "a"}, []int{3, 1}, map[string]int64{"one": 1}, map[int][]int{1: {2, 3}}, 1, "two",
		map[string]interface{}{"street": "Main", "number": 1}, inf.NewDec(-150, 2), new(big.Int).Lsh(big.NewInt(1), 70), "::1")
	return fmt.Sprint(app.rows("SELECT id, l, s, m, n, t, u, d, v, i FROM kinds WHERE id = ?", 1))
}

func vectors(app *application) interface{} {
	if !hasVectors {
		panic(absent("gocql 1 has no vectors"))
	}
	app.do("INSERT INTO vectors (id, v) VALUES (?, ?)", 1, []float32{1, 2.5, -3})
	return app.rows("SELECT v FROM vectors WHERE id = 1")
}

func blob(app *application) interface{} {
	large := make([]byte, 1<<20)
	for index := range large {
		large[index] = byte(index)
	}
	app.do("INSERT INTO blobs (id, b) VALUES (?, ?)", 1, large)
	returned := []byte{}
	check(app.session.Query("SELECT b FROM blobs WHERE id = ?", 1).Scan(&returned))
	if !bytes.Equal(large, returned) {
		panic(fmt.Errorf("%d other bytes", len(returned)))
	}
	return len(returned)
}

func null(app *application) interface{} {
	app.do("INSERT INTO t (id, name, note) VALUES (?, ?, ?)", 30, "kept", "gone")
	app.do("INSERT INTO t (id, name, note) VALUES (?, ?, ?)", 30, "kept", nil)
	return app.rows("SELECT name, note FROM t WHERE id = 30")
}

func unsetValue(app *application) interface{} {
	if app.version < 4 {
		panic(absent("version 3 has no unset values"))
	}
	app.do("INSERT INTO t (id, name, note) VALUES (?, ?, ?)", 31, "first", "kept")
	app.do("INSERT INTO t (id, name, note) VALUES (?, ?, ?)", 31, "second", unset)
	return app.rows("SELECT name, note FROM t WHERE id = 31")
}

// traceID is a tracer that keeps the id.
type traceID []byte

func (id *traceID) Trace(found []byte) { *id = append([]byte{}, found...) }

// readEvent is how the node that has the data says that it reads.
const readEvent = "Executing single-partition query"

// traced is the id of a request's trace.
func (app *application) traced(statement string, values ...interface{}) traceID {
	var id traceID
	check(app.session.Query(statement, values...).Trace(&id).Exec())
	return id
}

// trace is what nodes have written of a read. They write its parts one by one, in no order, and some after the end: it is asked for until
// all are there.
func (app *application) trace(id traceID) (session map[string]interface{}, events []map[string]interface{}) {
	eventually("a trace", func() bool {
		// A null is an empty value here; the duration shows that the request has ended.
		of := "FROM system_traces.sessions WHERE session_id = ?"
		begun := rows(app.plain, "SELECT request, parameters, coordinator, duration "+of, []byte(id))
		events = rows(app.plain, "SELECT activity, source FROM system_traces.events WHERE session_id = ?", []byte(id))
		if len(begun) == 0 || begun[0]["request"] == "" || begun[0]["duration"] == 0 {
			return false
		}
		session = begun[0]
		return len(events) > 2 && reader(events) != nil
	})
	return session, events
}

// reader is the node that has read the data; nil as long as it has not said so.
func reader(events []map[string]interface{}) interface{} {
	for _, event := range events {
		if strings.HasPrefix(event["activity"].(string), readEvent) {
			return event["source"]
		}
	}
	return nil
}

func tracing(app *application) interface{} {
	id := app.traced("SELECT name FROM t WHERE id = ?", 1)
	session, events := app.trace(id)
	return []interface{}{session["request"], session["parameters"].(map[string]string)["query"], len(events) > 2}
}

func warnings(app *application) interface{} {
	if app.version < 4 {
		panic(absent("version 3 has no warnings"))
	}
	insert := "INSERT INTO t (id, note) VALUES (%d, '" + strings.Repeat("x", 4000) + "');"
	iter := app.session.Query("BEGIN UNLOGGED BATCH " + fmt.Sprintf(insert, 40) + fmt.Sprintf(insert, 41) + " APPLY BATCH").Iter()
	found := iter.Warnings()
	check(iter.Close())
	return found
}

// failure is what an error says, and of what kind it is.
func failure(err error) []string {
	if err == nil {
		panic(errors.New("a statement did not fail"))
	}
	return []string{fmt.Sprintf("%T", err), err.Error()}
}

func fails(statements ...string) func(*application) interface{} {
	return func(app *application) interface{} {
		found := [][]string{}
		for _, statement := range statements {
			if strings.Contains(statement, "%s") {
				statement = fmt.Sprintf(statement, app.keyspace)
			}
			found = append(found, failure(app.session.Query(statement).Exec()))
		}
		return found
	}
}

func errorUnavailable(app *application) interface{} {
	return failure(app.session.Query("SELECT name FROM t WHERE id = 1").Consistency(three).Exec())
}

func errorFunction(app *application) interface{} {
	return failure(app.session.Query("SELECT broken(id) FROM t WHERE id = 1").Exec())
}

// More tombstones than the node puts up with.
func errorReadFailure(app *application) interface{} {
	for seq := 0; seq < 110; seq++ {
		app.do("DELETE FROM graves WHERE id = ? AND seq = ?", 1, seq)
	}
	// Which replica failed how is in the text.
	return failure(app.session.Query("SELECT seq FROM graves WHERE id = 1").Exec())[0]
}

func (app *application) asUser(user, secret string) *clusterConfig {
	if _, ok := app.arguments["user"]; !ok {
		panic(absent("the cluster asks for no password"))
	}
	cluster := app.configure(false)
	cluster.Authenticator = password{Username: user, Password: secret}
	return cluster
}

func errorUnauthorized(app *application) interface{} {
	role := app.keyspace + "_limited"
	cluster := app.asUser(role, "limited")
	app.do("CREATE ROLE IF NOT EXISTS " + role + " WITH PASSWORD = 'limited' AND LOGIN = true")
	other := app.open(cluster)
	defer other.Close()
	return failure(other.Query("SELECT name FROM " + app.keyspace + ".t WHERE id = 1").Exec())
}

func wrongPassword(app *application) interface{} {
	_, err := app.asUser(app.arguments["user"], "wrong").CreateSession()
	return failure(err)
}

// gocql refuses USE; a session's keyspace is sent as USE on each of its connections.
func use(app *application) interface{} {
	cluster := app.configure(false)
	cluster.Keyspace = app.keyspace + "_2"
	moved := app.open(cluster)
	defer moved.Close()
	check(moved.Query("INSERT INTO moved (id, v) VALUES (?, ?)", 1, 7).Exec())
	return rows(moved, "SELECT v FROM moved WHERE id = 1")
}

func keyspaceOfRequest(app *application) interface{} {
	if !hasKeyspaceOfRequest || app.version < 5 {
		panic(absent("before version 5 requests have no keyspace"))
	}
	found, err := keyspaceOf(app.session, "SELECT id, v FROM moved WHERE id = ?", app.keyspace+"_2", 1).SliceMap()
	check(err)
	return found
}

func preparedAgain(app *application) interface{} {
	app.do("INSERT INTO altered (id, v) VALUES (?, ?)", 1, 1)
	read := func() interface{} { return app.rows("SELECT id, v FROM altered WHERE id = ?", 1) }
	found := []interface{}{read()}
	app.do("ALTER TABLE altered ADD w text")
	for again := 0; again < 2*app.nodes; again++ {
		found = append(found, read())
	}
	return found
}

// gocql forgets its metadata of a keyspace when it is told that something in it has changed.
func schemaEvents(app *application) interface{} {
	other := app.open(app.configure(false))
	defer other.Close()
	app.columns("t")
	check(other.Query("CREATE TABLE " + app.keyspace + ".told (id int PRIMARY KEY)").Exec())
	eventually("the new table is told of", func() bool { return len(app.columns("told")) > 0 })
	check(other.Query("DROP TABLE " + app.keyspace + ".told").Exec())
	eventually("its end is told of", func() bool { return len(app.columns("told")) == 0 })
	return "told"
}

// Reads of keys that one node has: in how many of them only that node took part, as their traces say.
func (app *application) tokenAware(table string) string {
	traces := []traceID{}
	for id := 0; id < 30; id++ {
		app.do("INSERT INTO "+table+" (k, n) VALUES (?, ?)", fmt.Sprint("key ", id), id)
		traces = append(traces, app.traced("SELECT k FROM "+table+" WHERE k = ? AND n = ?", fmt.Sprint("key ", id), id))
	}
	ofReplicas := 0
	for _, id := range traces {
		session, events := app.trace(id)
		if fmt.Sprint(session["coordinator"]) == fmt.Sprint(reader(events)) {
			ofReplicas++
		}
	}
	return fmt.Sprintf("%d of %d", ofReplicas, len(traces))
}

// 500 requests on one connection, none waiting for another's answer.
func inFlight(app *application) interface{} {
	cluster := app.configure(true)
	cluster.Keyspace = app.keyspace
	crowded := app.open(cluster)
	defer crowded.Close()
	together(500, func(id int) error {
		return crowded.Query("INSERT INTO crowded (id, v) VALUES (?, ?)", id, -id).Exec()
	})
	var mutex sync.Mutex
	total := 0
	together(500, func(id int) error {
		var v int
		err := crowded.Query("SELECT v FROM crowded WHERE id = ?", id).Scan(&v)
		mutex.Lock()
		total += v
		mutex.Unlock()
		return err
	})
	return total
}

func together(count int, perform func(int) error) {
	failures := make(chan error, count)
	for id := 0; id < count; id++ {
		go func(id int) { failures <- perform(id) }(id)
	}
	for id := 0; id < count; id++ {
		check(<-failures)
	}
}

// 200 connections to all nodes together, each used.
func connections(app *application) interface{} {
	cluster := app.configure(false)
	cluster.NumConns = 200 / app.nodes
	cluster.Keyspace = app.keyspace
	many := app.open(cluster)
	defer many.Close()
	together(600, func(int) error { return many.Query("SELECT name FROM t WHERE id = ?", 1).Exec() })
	return cluster.NumConns
}

// A node stops answering, is killed, and comes back; the harness does it when all programs have said that they are ready.
func outage(app *application) interface{} {
	cluster := app.configure(true)
	cluster.Keyspace = app.keyspace
	contact := app.open(cluster)
	defer contact.Close()
	ask := func(statement string) error { return contact.Query(statement).Consistency(all).Exec() }
	write, read := "INSERT INTO held (id, v) VALUES (1, 1)", "SELECT v FROM held WHERE id = 1"
	check(ask(write))
	check(ask(read))
	reached("ready")
	app.stage("paused")
	passed("timeout-read", failure(ask(read)))
	passed("timeout-write", failure(ask(write)))
	reached("paused")
	app.stage("killed")
	eventually("a node is down", func() bool { return len(app.hosts.those(false)) == 1 })
	passed("event-down", app.hosts.those(false))
	eventually("the coordinator knows", func() bool {
		err := ask(read)
		return err != nil && strings.Contains(err.Error(), "Cannot achieve")
	})
	passed("unavailable", failure(ask(read)))
	reached("killed")
	app.stage("restarted")
	eventually("the node is up", func() bool { return len(app.hosts.those(true)) == app.nodes })
	passed("event-up", app.hosts.those(true))
	eventually("reads of all replicas", func() bool { return ask(read) == nil })
	passed("after-restart", app.rows("SELECT v FROM held WHERE id = 1"))
	reached("restarted")
	return nil
}

func reconnect(app *application) interface{} {
	app.do("INSERT INTO t (id, name) VALUES (1, 'kept')")
	reached("ready")
	app.stage("restarted")
	eventually("reads", func() bool { return app.session.Query("SELECT name FROM t WHERE id = 1").Exec() == nil })
	// It comes back on its own, and only then does the driver ask where the nodes are.
	eventually("the control connection", func() bool { return agree(app.session) == nil })
	passed("reconnected", app.rows("SELECT name FROM t WHERE id = 1"))
	reached("restarted")
	return nil
}
