package main

import (
	"fmt"
	"math"
	"os"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"gopkg.in/inf.v0"
)

// steps are what is asked, and how many partitions each of it touches. Cassandra 6.0-alpha2 takes values by their place,
// whatever their names.
func steps(release string) []func(*application) {
	steps := []func(*application){tables, values, inLists, pages, batches, conditions, ring, rows, changed, again}
	if strings.HasPrefix(release, "6.0-alpha") {
		fmt.Fprintln(os.Stderr, "left out: values by name, which Cassandra", release, "does not read")
		return steps
	}
	return append(steps, named)
}

type list = []interface{}

func tables(app *application) {
	app.define(
		"CREATE TABLE one (k int PRIMARY KEY, v int, w int)",
		"CREATE TABLE two (a int, b text, c int, v int, w_two int, w_two_batch int, PRIMARY KEY ((a, b), c))",
		"CREATE TABLE deep (k int, c int, s int static, v int, w_deep_batch int, PRIMARY KEY (k, c))",
		"CREATE TABLE counts (k int PRIMARY KEY, n counter, m counter)",
		"CREATE TABLE by_decimal (k decimal PRIMARY KEY, v int)", "CREATE TABLE by_double (k double PRIMARY KEY, v int)",
		"CREATE TABLE by_blob (k blob PRIMARY KEY, v int)", "CREATE TABLE by_uuid (k uuid PRIMARY KEY, v int)",
		"CREATE TABLE by_text (k text PRIMARY KEY, v int)", "CREATE TABLE json_bound (a int, b text, v int, PRIMARY KEY ((a, b)))",
		"CREATE TABLE removed (k int, c int, v int, PRIMARY KEY (k, c))",
	)
	for _, name := range []string{"bound", "unset", "bind", "payload", "named", "named_ttl", "ttl", "batch", "same", "null",
		"logged", "lwt", "lwt_if", "lwt_batch", "retried", "turned_away"} {
		app.define("ALTER TABLE one ADD w_" + name + " int")
	}
}

func values(app *application) {
	for key := 0; key < 4; key++ {
		app.exact("w_bound", 1, "INSERT INTO one (k, w_bound) VALUES (?, ?)", key, 1)
	}
	app.exact("w_bound", 1, "INSERT INTO one (k, w_bound) VALUES (?, ?)", 1, nil)
	app.refused("w_bound", "INSERT INTO one (k, w_bound) VALUES (?, ?)", nil, 1)
	// Version 3 knows no unset values, gocql sends them all the same, and the server takes them for null.
	app.exact("w_unset", 1, "INSERT INTO one (k, w_unset) VALUES (?, ?)", 7, gocql.UnsetValue)
	app.refused("w_unset", "INSERT INTO one (k, w_unset) VALUES (?, ?)", gocql.UnsetValue, 7)
	two := "INSERT INTO two (b, w_two, c, a) VALUES (?, ?, ?, ?)"
	app.exact("w_two", 1, two, "x", 1, 1, 1)
	app.exact("w_two", 1, two, "", 1, 1, 1)
	app.refused("w_two", two, nil, 1, 1, 1)
	app.refused("w_two", two, "x", 1, 1, gocql.UnsetValue)
	app.exact("r_partly", 1, "SELECT v AS r_partly FROM two WHERE a = 1 AND b = ?", "x")
	app.refused("r_null", "SELECT v AS r_null FROM one WHERE k = ?", nil)
	app.refused("r_empty", "SELECT v AS r_empty FROM by_text WHERE k = ?", "")
	app.exact("r_literal", 1, "SELECT v AS r_literal FROM one WHERE k = 1")
	app.exact("w_ttl", 1, "UPDATE one USING TTL ? AND TIMESTAMP ? SET w_ttl = ? WHERE k = ?", 100, 7, 1, 2)
	bind := "UPDATE one SET w_bind = ? WHERE k IN ?"
	app.exactly("w_bind", 2, bind, app.session.Bind(bind, func(*gocql.QueryInfo) ([]interface{}, error) {
		return list{1, []int{1, 2, 1}}, nil
	}))
	for _, document := range []string{`{"a": 1, "b": "x", "v": 1}`, `{"b": "é", "a": "2"}`} {
		app.exact("json_bound", 1, "INSERT INTO json_bound JSON ? DEFAULT UNSET", document)
	}
	app.refused("json_bound", "INSERT INTO json_bound JSON ? DEFAULT UNSET", `{"a": 1}`)
	if app.version >= 4 {
		payload := "INSERT INTO one (k, w_payload) VALUES (?, ?)"
		app.exactly("w_payload", 1, payload, app.session.Query(payload, 1, 1).CustomPayload(map[string][]byte{"k": {2}}))
	}
	if app.version >= 5 {
		// The same words in another keyspace are another key.
		app.define("CREATE TABLE elsewhere (a int, b int, v int, PRIMARY KEY (a, b))",
			"CREATE TABLE "+app.keyspace+"_other.elsewhere (a int, b int, v int, w_there int, PRIMARY KEY ((a, b)))")
		app.exact("r_here", 1, "SELECT v AS r_here FROM elsewhere WHERE a = ? AND b IN ?", 1, []int{1, 2})
		there := "SELECT v AS r_there FROM elsewhere WHERE a = ? AND b IN ?"
		app.exactly("r_there", 2, there, app.session.Query(there, 1, []int{1, 2}).SetKeyspace(app.keyspace+"_other").WithNowInSeconds(1))
		batch := app.session.Batch(gocql.UnloggedBatch).SetKeyspace(app.keyspace + "_other")
		app.batch("w_there", 2, batch, list{"INSERT INTO elsewhere (a, b, w_there) VALUES (?, ?, 1)", 1, 1}, list{"INSERT INTO elsewhere (a, b) VALUES (1, 2)"})
	}
}

// Values with names are sent with them, in any order.
func named(app *application) {
	update := "UPDATE one SET w_named = :v WHERE k = :k"
	app.exact("w_named", 1, update, gocql.NamedValue("v", 2), gocql.NamedValue("k", 1))
	app.exact("w_named", 1, update, gocql.NamedValue("k", 1), gocql.NamedValue("v", 2))
	app.exact("w_named", 1, update, 2, 1)
	app.refused("w_named", update, gocql.NamedValue("k", nil), gocql.NamedValue("v", 2))
	app.refused("w_named", update, gocql.NamedValue("v", nil), gocql.NamedValue("x", 2))
	lists := "SELECT v AS r_named FROM two WHERE a = :a AND b IN (:b, :c)"
	app.exact("r_named", 2, lists, gocql.NamedValue("a", 1), gocql.NamedValue("c", "x"), gocql.NamedValue("b", "y"))
	app.exact("r_named", 1, lists, gocql.NamedValue("a", 1), gocql.NamedValue("c", "x"), gocql.NamedValue("b", "x"))
	// One name twice is two values by position; by name both are the first.
	same := "SELECT v AS r_named_same FROM one WHERE k IN (:k, :k)"
	app.exact("r_named_same", 2, same, 1, 2)
	app.exact("r_named_same", 1, same, gocql.NamedValue("k", 1), gocql.NamedValue("k", 2))
	app.exact("w_named_ttl", 1, "UPDATE one USING TTL :k SET w_named_ttl = 1 WHERE k = :k", gocql.NamedValue("k", 60), gocql.NamedValue("k", 61))
}

func inLists(app *application) {
	one := "SELECT v AS r_in FROM one WHERE k IN ?"
	for _, keys := range []struct {
		list   []int
		unique int
	}{{[]int{1, 2, 2, 3}, 3}, {[]int{5}, 1}, {[]int{}, 0}, {[]int{4, 4, 4}, 1}} {
		app.exact("r_in", keys.unique, one, keys.list)
	}
	app.refused("r_in", one, []int(nil))
	app.refused("r_in", one, gocql.UnsetValue)
	app.exact("r_in_markers", 2, "SELECT v AS r_in_markers FROM one WHERE k IN (?, 7, ?)", 7, 9)
	app.refused("r_in_null", "SELECT v AS r_in_null FROM one WHERE k IN (1, ?)", nil)
	app.exact("r_product", 6, "SELECT v AS r_product FROM two WHERE a IN ? AND b IN ?", []int{1, 2, 3, 3}, []string{"x", "y", "x"})
	app.exact("r_product", 0, "SELECT v AS r_product FROM two WHERE a IN ? AND b IN ?", []int{1}, []string{})
	app.exact("r_partly_in", 2, "SELECT v AS r_partly_in FROM two WHERE a = ? AND b IN ('x', ?, 'x')", 1, "y")
	app.exact("r_clustering", 1, "SELECT v AS r_clustering FROM deep WHERE k = ? AND c IN ?", 1, []int{1, 2, 3})
	// Equal for the type is the same key of a list.
	app.exact("r_decimal", 2, "SELECT v AS r_decimal FROM by_decimal WHERE k IN ?", []*inf.Dec{inf.NewDec(10, 1), inf.NewDec(100, 2), inf.NewDec(-2, 0)})
	app.exact("r_double", 3, "SELECT v AS r_double FROM by_double WHERE k IN ?", []float64{0, math.Copysign(0, -1), math.NaN(), math.NaN()})
	app.exact("r_blob", 2, "SELECT v AS r_blob FROM by_blob WHERE k IN ?", [][]byte{{0, 255}, {0}, {0, 255}})
	app.exact("r_uuid", 2, "SELECT v AS r_uuid FROM by_uuid WHERE k IN ?", []gocql.UUID{{1}, {2}, {1}})
	app.exact("r_text", 2, "SELECT v AS r_text FROM by_text WHERE k IN ?", []string{"a", "A", "a"})
}

func pages(app *application) {
	app.define("CREATE TABLE paged (k int, c int, v int, w_paged int, PRIMARY KEY (k, c))")
	for key := 0; key < 6; key++ {
		batch := app.session.Batch(gocql.UnloggedBatch)
		entries := []list{}
		for row := 0; row < 5; row++ {
			entries = append(entries, list{"INSERT INTO paged (k, c, v, w_paged) VALUES (?, ?, 1, 1)", key, row})
		}
		app.batch("w_paged", 1, batch, entries...)
	}
	keys := []int{0, 1, 2, 3, 4, 5, 0, 1}
	app.inPages("r_pages", 6, 5, 7, "SELECT v AS r_pages FROM paged WHERE k IN ?", keys)
	app.inPages("r_pages_one", 1, 3, 2, "SELECT v AS r_pages_one FROM paged WHERE k IN ?", []int{3, 3})
	// After the last row of a whole page gocql has to ask for one more, which is empty.
	app.inPages("r_pages_whole", 1, 2, 5, "SELECT v AS r_pages_whole FROM paged WHERE k = ?", 3)
	app.exact("r_count_in", 6, "SELECT count(*) AS r_count_in FROM paged WHERE k IN ?", keys)
	app.exact("r_limit_in", 6, "SELECT v AS r_limit_in FROM paged WHERE k IN ? LIMIT ?", keys, 3)
}

func batches(app *application) {
	one, two := "INSERT INTO one (k, w_batch) VALUES (?, ?)", "UPDATE two SET w_two_batch = ? WHERE a = 1 AND b = ? AND c = ?"
	// Two keys of one, two of two, one of by_text: the last is a text.
	app.batch("w_batch", 5, app.session.Batch(gocql.LoggedBatch), list{one, 1, 1}, list{two, 1, "x", 1}, list{one, 1, 2},
		list{two, 2, "x", 2}, list{one, 2, 1}, list{two, 1, "y", 1}, list{"INSERT INTO by_text (k, v) VALUES ('a', 1)"})
	// The same bytes as key of two tables are two partitions.
	app.batch("w_same", 2, app.session.Batch(gocql.UnloggedBatch), list{"INSERT INTO one (k, w_same) VALUES (?, ?)", 1, 1},
		list{"INSERT INTO one (k, w_same) VALUES (?, ?)", 1, gocql.UnsetValue}, list{"UPDATE deep SET w_deep_batch = ? WHERE k = ? AND c IN ?", 1, 1, []int{1, 2}})
	null := app.session.Batch(gocql.UnloggedBatch)
	add(null, []list{{"INSERT INTO one (k, w_null) VALUES (?, 1)", 1}, {"INSERT INTO one (k, w_null) VALUES (?, 1)", nil}})
	app.hasRefused("w_null", null.Exec())
	counters := "UPDATE counts SET n = n + ? WHERE k = ?"
	app.batch("n", 2, app.session.Batch(gocql.CounterBatch), list{counters, int64(1), 1}, list{counters, int64(1), 2}, list{counters, int64(2), 1})
	app.exact("m", 2, "UPDATE counts SET m = m + ? WHERE k IN ?", int64(1), []int{1, 2, 1})
	// A batch that is a text is prepared like any other statement.
	app.exact("w_logged", 2, "BEGIN BATCH INSERT INTO one (k, w_logged) VALUES (?, 1); UPDATE one USING TTL ? SET w_logged = 1 WHERE k IN ? APPLY BATCH", 1, 60, []int{1, 2})
}

func conditions(app *application) {
	for range []int{1, 2} {
		app.conditional("w_lwt", "INSERT INTO one (k, w_lwt) VALUES (?, ?) IF NOT EXISTS", 300, 1)
	}
	app.conditional("w_lwt_if", "UPDATE one SET w_lwt_if = ? WHERE k = ? IF v = ?", 1, 300, nil)
	batch := app.session.Batch(gocql.LoggedBatch)
	text := add(batch, []list{{"UPDATE one SET w_lwt_batch = ? WHERE k = ? IF v = ?", 1, 300, 5}, {"UPDATE one SET w_lwt_batch = 2 WHERE k = 300"}})
	_, iter, err := batch.SerialConsistency(gocql.LocalSerial).MapExecCAS(map[string]interface{}{})
	check(err)
	app.done("w_lwt_batch", 1, text, nil, iter.Close())
}

func ring(app *application) {
	app.ring("r_token", "token-range", "SELECT v AS r_token FROM one WHERE token(k) > ? AND token(k) <= ?", int64(-1<<62), int64(1<<62))
	app.ring("r_token_two", "token-range", "SELECT v AS r_token_two FROM two WHERE token(a, b) > token(?, ?)", 1, "x")
	app.ring("r_scan", "scan", "SELECT v AS r_scan FROM one")
	app.ring("r_half_key", "scan", "SELECT v AS r_half_key FROM two WHERE a = ? ALLOW FILTERING", 1)
}

func rows(app *application) {
	app.exact("removed", 2, "DELETE FROM removed WHERE k IN ? AND c > ? AND c <= ?", []int{1, 2, 2}, 1, 5)
	app.exact("r_slice", 1, "SELECT v AS r_slice FROM deep WHERE k = ? AND c > ? AND c < ?", 1, 3, 5)
	app.exact("r_slice", 0, "SELECT v AS r_slice FROM deep WHERE k = ? AND c > ? AND c < ?", 1, 5, 3)
	app.exact("r_static", 2, "SELECT DISTINCT k, s AS r_static FROM deep WHERE k IN (?, ?)", 1, 2)
}

// The server forgets the statements of an altered table. It says so for one of a batch at a time, and gocql asks again each time.
func changed(app *application) {
	app.define("CREATE TABLE widened (k int PRIMARY KEY, v int, w_widened int)")
	for _, forgotten := range []int{0, 1} {
		if forgotten == 1 {
			check(app.direct.Query("ALTER TABLE " + app.keyspace + ".widened ADD x text").Exec())
		}
		app.exact("r_widened", 2, "SELECT k, v AS r_widened FROM widened WHERE k IN ?", []int{1, 2, 1})
		app.batch("w_widened", 2, app.session.Batch(gocql.UnloggedBatch), list{"INSERT INTO widened (k, w_widened) VALUES (?, ?)", 1, 1},
			list{"UPDATE widened SET w_widened = ? WHERE k = ?", 1, 2}, list{"INSERT INTO widened (k, w_widened) VALUES (?, ?)", 2, 1})
		app.of("r_widened").Refused += forgotten
		app.of("w_widened").Refused += 2 * forgotten
	}
}

// There are no three nodes: gocql asks again with what it is to try next. And what it sends a second time before the answer.
func again(app *application) {
	downgrading := &gocql.DowngradingConsistencyRetryPolicy{ConsistencyLevelsToTry: []gocql.Consistency{gocql.One}}
	retried := func(name string, partitions int, cql string, values ...interface{}) {
		app.exactly(name, partitions, cql, app.session.Query(cql, values...).Consistency(gocql.Three).Idempotent(true).RetryPolicy(downgrading))
	}
	retried("w_retried", 1, "UPDATE one SET w_retried = ? WHERE k = ?", 1, 1)
	app.of("w_retried").Refused++
	retried("r_retried", 1, "SELECT v AS r_retried FROM one WHERE k IN ?", []int{1, 1})
	app.of("r_retried").Refused++
	app.of("r_retried").Reads = 1
	// Of several partitions the server does not say whether it has asked for some before.
	retried("w_turned_away", 2, "UPDATE one SET w_turned_away = ? WHERE k IN ?", 1, []int{1, 2})
	app.unknown("w_turned_away")
	keys := make([]int, 1000)
	for key := range keys {
		keys[key] = key
	}
	app.speculatively("r_speculative", len(keys), "SELECT v AS r_speculative FROM one WHERE k IN ?", keys)
}
