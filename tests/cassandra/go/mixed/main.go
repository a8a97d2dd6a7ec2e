// An application whose users do one operation after the other: the same as ../../python/mixed.py, on gocql.
//
// usage: driver host=… port=… keyspace=… version=4|5 compression=none|lz4 users=… rate=… seconds=… operations=a,b,c seed=… labels=FILE
//
// This driver cannot tell servers the name of its application.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
)

// Connections to each node.
const connections = 4

func main() {
	arguments := map[string]string{}
	for _, argument := range os.Args[1:] {
		name, value, _ := strings.Cut(argument, "=")
		arguments[name] = value
	}
	session := connect(arguments)
	defer session.Close()
	names := strings.Split(arguments["operations"], ",")
	shop := &shop{session: session, statements: statementsIn(arguments["keyspace"])}
	done := &labels{done: map[string]*label{}}
	began := time.Now()
	until := began.Add(time.Duration(number(arguments["seconds"]) * float64(time.Second)))
	pace := &pace{rate: number(arguments["rate"]), next: began}
	var users sync.WaitGroup
	for i := 0; i < int(number(arguments["users"])); i++ {
		source := rand.New(rand.NewSource(int64(number(arguments["seed"]))*1000 + int64(i)))
		users.Add(1)
		go func() {
			defer users.Done()
			(&user{shop: shop, names: names, random: source}).run(pace, done, until)
		}()
	}
	users.Wait()
	done.write(arguments["labels"], arguments["keyspace"], time.Since(began))
}

func connect(arguments map[string]string) *gocql.Session {
	cluster := gocql.NewCluster(arguments["host"])
	cluster.Port = int(number(arguments["port"]))
	cluster.ProtoVersion = int(number(arguments["version"]))
	cluster.NumConns = connections
	cluster.Timeout, cluster.ConnectTimeout = 60*time.Second, 60*time.Second
	cluster.Consistency = gocql.One
	cluster.PoolConfig.HostSelectionPolicy = gocql.RoundRobinHostPolicy()
	if arguments["compression"] == "lz4" {
		cluster.Compressor = lz4.LZ4Compressor{}
	}
	session, err := cluster.CreateSession()
	check(err)
	return session
}

// labels are what was done.
type labels struct {
	lock     sync.Mutex
	done     map[string]*label
	requests int
}

type label struct{ count, keys int }

func (l *labels) add(operation string, keys, requests int) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.done[operation] == nil {
		l.done[operation] = &label{}
	}
	l.done[operation].count++
	l.done[operation].keys += keys
	l.requests += requests
}

func (l *labels) write(file, keyspace string, took time.Duration) {
	to, err := os.Create(file)
	check(err)
	defer to.Close()
	lines := json.NewEncoder(to)
	var names []string
	for name := range l.done {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		done, operation := l.done[name], operations[name]
		var tables []string
		for _, table := range operation.tables {
			tables = append(tables, keyspace+"."+table)
		}
		var kind any
		if operation.kind != "" {
			kind = operation.kind
		}
		check(lines.Encode(map[string]any{
			"operation": name, "kind": kind, "tables": tables,
			"count": done.count, "fan_out": float64(done.keys) / float64(done.count),
		}))
	}
	check(lines.Encode(map[string]any{"requests": l.requests, "seconds": took.Seconds()}))
}

// pace is so many requests in a second, of all users together, in no rhythm.
type pace struct {
	lock sync.Mutex
	rate float64
	next time.Time
}

// wait waits until the next operation is due, after one of so many requests.
func (p *pace) wait(requests int) {
	p.lock.Lock()
	// What could not be sent in time is not made up for.
	if late := time.Now().Add(-100 * time.Millisecond); p.next.Before(late) {
		p.next = late
	}
	due := p.next
	p.next = due.Add(time.Duration(2 * rand.Float64() * float64(requests) / p.rate * float64(time.Second)))
	p.lock.Unlock()
	time.Sleep(time.Until(due))
}

// user does operations, and comes back to what he has seen some seconds later.
type user struct {
	shop   *shop
	names  []string
	random *rand.Rand
	later  []visit
}

type visit struct {
	at        time.Time
	statement string
	value     any
}

func (u *user) run(pace *pace, done *labels, until time.Time) {
	requests := 0
	for time.Now().Before(until) {
		pace.wait(requests)
		if len(u.later) > 0 && u.later[0].at.Before(time.Now()) {
			u.shop.ask(u.later[0].statement, u.later[0].value)
			u.later, requests = u.later[1:], 1
			continue
		}
		name := u.names[u.random.Intn(len(u.names))]
		var keys int
		keys, requests = operations[name].do(u)
		done.add(name, keys, requests)
	}
}

func (u *user) comeBack(statement string, value any) {
	after := 400 + u.random.Intn(2600)
	u.later = append(u.later, visit{time.Now().Add(time.Duration(after) * time.Millisecond), statement, value})
	sort.Slice(u.later, func(i, j int) bool { return u.later[i].at.Before(u.later[j].at) })
}

// popular gives numbers from 0 to below end, the lower ones more often: as words are, by Zipf's law.
func (u *user) popular(end int) int {
	return int(math.Min(math.Pow(float64(end), u.random.Float64()), float64(end))) - 1
}

// shop is what operations are sent with.
type shop struct {
	session    *gocql.Session
	statements map[string]string
}

// ask gives the rows, cell by cell.
func (s *shop) ask(name string, values ...any) [][]any {
	rows, _ := s.pages(5000, name, values...)
	return rows
}

// askAll asks for each of these rows of values at the same time.
func (s *shop) askAll(name string, all [][]any) {
	var asked sync.WaitGroup
	for _, values := range all {
		asked.Add(1)
		go func(values []any) {
			defer asked.Done()
			s.ask(name, values...)
		}(values)
	}
	asked.Wait()
}

// pages gives the rows, and how many requests they took.
func (s *shop) pages(size int, name string, values ...any) ([][]any, int) {
	iterator := s.session.Query(s.statements[name], values...).PageSize(size).Iter()
	var rows [][]any
	for {
		data, err := iterator.RowData()
		check(err)
		if !iterator.Scan(data.Values...) {
			break
		}
		row := make([]any, len(data.Values))
		for i, value := range data.Values {
			row[i] = pointedTo(value)
		}
		rows = append(rows, row)
	}
	check(iterator.Close())
	return rows, (len(rows) + size - 1) / size
}

func pointedTo(value any) any {
	switch value := value.(type) {
	case *int64:
		return *value
	case *string:
		return *value
	default:
		return value
	}
}

func number(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
