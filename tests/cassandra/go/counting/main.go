// An application on gocql that knows of each of its requests how many partitions it touches: the account of
// ../../python/counting.py, of what gocql sends in its own manner. It prepares all that it asks, the statements of a batch
// too where they have values, and gives names on the wire where a value has one.
//
// usage: counting NODE_HOST NODE_PORT PROXY_HOST PROXY_PORT VERSION KEYSPACE
//
// It asks through the proxy, and the node itself only for traces and for what the proxy is not to see. A case is a word of its
// statement that no other statement has.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

var classes = []string{"single", "multi", "token-range", "scan", "index", "unknown"}

// account of what was asked under one word.
type account struct {
	Proxy      string         `json:"proxy"`
	Case       string         `json:"case"`
	Requests   int            `json:"requests"`
	Refused    int            `json:"refused"`
	Partitions int            `json:"partitions"`
	Min        int            `json:"min"`
	Max        int            `json:"max"`
	Class      string         `json:"class"`
	Coverage   map[string]int `json:"coverage"`
	InFlight   int            `json:"in_flight"`
	// Requests that the server has begun with, and failed.
	Errors int `json:"errors"`
	// Reads that the requests are together, where a case says so.
	Reads   int `json:"reads,omitempty"`
	counted int
	classes map[string]int
}

// traced is a request whose traces are to agree with what it is said to touch.
type traced struct {
	name        string
	least, most int
	cql         string
	ids         traces
}

// traces are the ids of what was done for one request, PREPARE included.
type traces [][]byte

func (ids *traces) Trace(id []byte) { *ids = append(*ids, id) }

type application struct {
	direct, session *gocql.Session
	version         int
	keyspace        string
	accounts        map[string]*account
	traced          []traced
}

// streams counts the requests of one query that were written, and the answers to them.
type streams struct{ started, ended atomic.Int32 }

type streamsOf struct{}

func (streamsOf) StreamContext(ctx context.Context) gocql.StreamObserverContext {
	if counter, ok := ctx.Value(streamsOf{}).(*streams); ok {
		return counter
	}
	return nil
}
func (s *streams) StreamStarted(gocql.ObservedStream)   { s.started.Add(1) }
func (s *streams) StreamFinished(gocql.ObservedStream)  { s.ended.Add(1) }
func (s *streams) StreamAbandoned(gocql.ObservedStream) { s.ended.Add(1) }

// everAgain offers the one node as often as it is asked for: otherwise there is no other for a speculative execution.
type everAgain struct{ gocql.HostSelectionPolicy }

func (policy everAgain) Pick(statement gocql.ExecutableStatement) gocql.NextHost {
	return func() gocql.SelectedHost { return policy.HostSelectionPolicy.Pick(statement)() }
}

func main() {
	version, keyspace := number(os.Args[5]), os.Args[6]
	direct := connect(os.Args[1], os.Args[2], version, "")
	for _, name := range []string{keyspace, keyspace + "_other"} {
		check(direct.Query("DROP KEYSPACE IF EXISTS " + name).Exec())
		check(direct.Query("CREATE KEYSPACE " + name + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").Exec())
	}
	session := connect(os.Args[3], os.Args[4], version, keyspace)
	app := &application{direct: direct, session: session, version: version, keyspace: keyspace, accounts: map[string]*account{}}
	for _, step := range steps(app.release()) {
		step(app)
	}
	disagreements := app.disagreementsWithTheServer()
	session.Close()
	direct.Close()
	if len(disagreements) > 0 {
		fmt.Println(strings.Join(disagreements, "\n"))
		os.Exit(1)
	}
	app.print()
}

func connect(host, port string, version int, keyspace string) *gocql.Session {
	cluster := gocql.NewCluster(host)
	cluster.Port, cluster.ProtoVersion, cluster.Keyspace = number(port), version, keyspace
	cluster.Timeout, cluster.ConnectTimeout = time.Minute, time.Minute
	cluster.Consistency, cluster.NumConns, cluster.RetryPolicy = gocql.One, 1, nil
	cluster.StreamObserver = streamsOf{}
	cluster.PoolConfig.HostSelectionPolicy = everAgain{gocql.RoundRobinHostPolicy()}
	session, err := cluster.CreateSession()
	check(err)
	return session
}

// release is that of the server.
func (app *application) release() string {
	var release string
	check(app.direct.Query("SELECT release_version FROM system.local").Scan(&release))
	return release
}

func (app *application) define(statements ...string) {
	for _, statement := range statements {
		check(app.session.Query(statement).Exec())
	}
}

// exact asks once for what touches so many partitions.
func (app *application) exact(name string, partitions int, cql string, values ...interface{}) {
	app.exactly(name, partitions, cql, app.session.Query(cql, values...))
}

func (app *application) exactly(name string, partitions int, cql string, query *gocql.Query) {
	var ids traces
	_, err := query.Trace(&ids).Iter().SliceMap()
	app.done(name, partitions, cql, ids, err)
}

// batch asks once for statements that are a text and its values each.
func (app *application) batch(name string, partitions int, batch *gocql.Batch, entries ...[]interface{}) {
	var ids traces
	app.done(name, partitions, add(batch, entries), ids, batch.Trace(&ids).Exec())
}

// conditional asks the same of what changes only where a condition holds.
func (app *application) conditional(name string, cql string, values ...interface{}) {
	_, err := app.session.Query(cql, values...).MapScanCAS(map[string]interface{}{})
	app.done(name, 1, cql, nil, err)
}

func (app *application) done(name string, partitions int, cql string, ids traces, err error) {
	if err != nil {
		panic(fmt.Sprintf("%s: %s: %v", name, cql, err))
	}
	app.countExact(name, partitions)
	if len(ids) > 0 && !strings.Contains(cql, " IF ") && !strings.Contains(cql, "counts") {
		app.traced = append(app.traced, traced{name, partitions, partitions, cql, ids})
	}
}

// inPages asks for what touches so many partitions and comes in so many pages, which gocql asks for one by one. Its PREPARE has
// no context, and does not count.
func (app *application) inPages(name string, partitions, pages, pageSize int, cql string, values ...interface{}) {
	var ids traces
	counter := &streams{}
	ctx := context.WithValue(context.Background(), streamsOf{}, counter)
	_, err := app.session.Query(cql, values...).WithContext(ctx).PageSize(pageSize).Trace(&ids).Iter().SliceMap()
	check(err)
	expect(int(counter.started.Load()) == pages, name, "requests", counter.started.Load())
	coverage, class := "exact", "single"
	if partitions > 1 {
		coverage, class = "bounded", "multi"
	}
	app.count(name, coverage, class, partitions)
	for page := 1; page < pages; page++ {
		app.count(name, coverage, class, 1)
	}
	app.traced = append(app.traced, traced{name, partitions, partitions + pages - 1, cql, ids})
}

// speculatively asks until gocql has sent the same a second time, before the answer to the first. Nothing is traced: the server
// loses events of requests as large as what this needs.
func (app *application) speculatively(name string, partitions int, cql string, values ...interface{}) {
	policy := &gocql.SimpleSpeculativeExecution{NumAttempts: 1, TimeoutDelay: time.Millisecond}
	for again := 0; again == 0; {
		counter := &streams{}
		ctx := context.WithValue(context.Background(), streamsOf{}, counter)
		query := app.session.Query(cql, values...).WithContext(ctx).Idempotent(true).SetSpeculativeExecutionPolicy(policy)
		_, err := query.Iter().SliceMap()
		check(err)
		for counter.ended.Load() < counter.started.Load() {
			time.Sleep(time.Millisecond)
		}
		for request := 0; request < int(counter.started.Load()); request++ {
			app.countExact(name, partitions)
		}
		again = int(counter.started.Load()) - 1
		app.accounts[name].InFlight += again
	}
}

// ring asks once for what names no partition.
func (app *application) ring(name, class, cql string, values ...interface{}) {
	check(app.session.Query(cql, values...).Exec())
	app.of(name).Coverage["scan"]++
	app.of(name).classes[class]++
}

// unknown is what was asked once and failed somewhere among its partitions.
func (app *application) unknown(name string) {
	app.of(name).Coverage["unknown"]++
	app.of(name).Errors++
	app.of(name).classes["unknown"]++
}

// refused asks once for what the server refuses for its values.
func (app *application) refused(name, cql string, values ...interface{}) {
	app.hasRefused(name, app.session.Query(cql, values...).Exec())
}

func (app *application) hasRefused(name string, err error) {
	var refusal gocql.RequestError
	expect(errors.As(err, &refusal) && refusal.Code() == gocql.ErrCodeInvalid, name, err)
	app.of(name).Refused++
}

func (app *application) of(name string) *account {
	if app.accounts[name] == nil {
		app.accounts[name] = &account{Proxy: "a", Case: name, Class: "unknown", Coverage: map[string]int{}, classes: map[string]int{}}
	}
	return app.accounts[name]
}

func (app *application) countExact(name string, partitions int) {
	class := "single"
	if partitions > 1 {
		class = "multi"
	}
	app.count(name, "exact", class, partitions)
}

func (app *application) count(name, coverage, class string, partitions int) {
	account := app.of(name)
	if account.counted == 0 || partitions < account.Min {
		account.Min = partitions
	}
	if partitions > account.Max {
		account.Max = partitions
	}
	account.Partitions += partitions
	account.counted++
	account.Coverage[coverage]++
	account.classes[class]++
}

// disagreementsWithTheServer are what its traces say otherwise.
func (app *application) disagreementsWithTheServer() (found []string) {
	tables := regexp.MustCompile(`(?:FROM|INTO|UPDATE) (?:\w+\.)?(\w+)`)
	deadline := time.Now().Add(300 * time.Second)
	for _, request := range app.traced {
		doing := "Adding to %s memtable"
		if strings.HasPrefix(request.cql, "SELECT") {
			doing = "Executing single-partition query on %s"
		}
		wanted := map[string]bool{}
		for _, table := range tables.FindAllStringSubmatch(request.cql, -1) {
			wanted[fmt.Sprintf(doing, table[1])] = true
		}
		seen := 0
		for _, id := range request.ids {
			// The duration is written last.
			for duration := 0; duration == 0; {
				expect(time.Now().Before(deadline), request.name, "no trace")
				err := app.direct.Query("SELECT duration FROM system_traces.sessions WHERE session_id = ?", id).Scan(&duration)
				if err != nil || duration == 0 {
					time.Sleep(20 * time.Millisecond)
				}
			}
			events := app.direct.Query("SELECT activity FROM system_traces.events WHERE session_id = ?", id).Iter()
			for activity := ""; events.Scan(&activity); {
				if wanted[activity] {
					seen++
				}
			}
			check(events.Close())
		}
		if seen < request.least || seen > request.most {
			found = append(found, fmt.Sprintf("%s: %d to %d expected, %d traced: %s", request.name, request.least, request.most, seen, request.cql))
		}
	}
	return found
}

func (app *application) print() {
	names := []string{}
	for name := range app.accounts {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		account := app.accounts[name]
		for index, most := len(classes)-1, 0; index >= 0; index-- {
			// The class of a pattern is the one that most executions have, and the worse of two.
			if of := account.classes[classes[index]]; of > most {
				account.Class, most = classes[index], of
			}
		}
		for _, requests := range account.Coverage {
			account.Requests += requests
		}
		line, err := json.Marshal(map[string]interface{}{"asked": account})
		check(err)
		fmt.Println(string(line))
	}
}

// add puts statements into a batch and returns their texts.
func add(batch *gocql.Batch, entries [][]interface{}) string {
	texts := []string{}
	for _, entry := range entries {
		batch.Query(entry[0].(string), entry[1:]...)
		texts = append(texts, entry[0].(string))
	}
	return strings.Join(texts, "; ")
}

func expect(holds bool, what ...interface{}) {
	if !holds {
		panic(fmt.Sprintln(what...))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}
