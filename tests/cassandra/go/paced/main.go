// A small service that sends requests at a steady rate, and records how long each of them took: the same as ../../python/paced.py, on
// gocql.
//
// usage: driver HOST PORT SECONDS KEYSPACE
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

const (
	perSecond = 100
	keys      = 200
)

// second is one line of output.
type second struct {
	Second      int64   `json:"second"`
	LatenciesUs []int64 `json:"latencies_us"`
	Failed      int     `json:"failed"`
}

func main() {
	host, keyspace := os.Args[1], os.Args[4]
	port, err := strconv.Atoi(os.Args[2])
	check(err)
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	check(err)
	cluster := gocql.NewCluster(host)
	cluster.Port = port
	cluster.Timeout, cluster.ConnectTimeout = 60*time.Second, 60*time.Second
	cluster.Consistency = gocql.One
	session, err := cluster.CreateSession()
	check(err)
	defer session.Close()
	check(session.Query("CREATE KEYSPACE " + keyspace +
		" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").Exec())
	check(session.Query("CREATE TABLE " + keyspace + ".events (day int, at int, kind text, PRIMARY KEY (day, at))").Exec())
	run(session, keyspace+".events", int(seconds*perSecond))
}

func run(session *gocql.Session, table string, requests int) {
	begun := time.Now()
	current := second{Second: begun.Unix()}
	for number := 0; number < requests; number++ {
		time.Sleep(time.Until(begun.Add(time.Duration(number) * time.Second / perSecond)))
		if now := time.Now().Unix(); now != current.Second {
			current.print()
			current = second{Second: now}
		}
		before := time.Now()
		if err := send(session, table, number); err != nil {
			current.Failed++
			fmt.Fprintln(os.Stderr, "failed:", err)
			continue
		}
		current.LatenciesUs = append(current.LatenciesUs, time.Since(before).Microseconds())
	}
	current.print()
}

func (s second) print() {
	line, err := json.Marshal(s)
	check(err)
	fmt.Println(string(line))
}

// send sends what is next: mostly reads and writes of one partition.
func send(session *gocql.Session, table string, number int) error {
	day, at := number%keys, number%1000
	switch {
	case number%50 == 10:
		return session.Query("SELECT at FROM "+table+" WHERE kind = ? ALLOW FILTERING", "rare").Exec()
	case number%50 == 20:
		return session.Query("SELECT at FROM "+table+" WHERE day IN ? AND at = ?", []int{day, day + 1, day + 2}, at).Exec()
	case number%2 == 1:
		return session.Query("INSERT INTO "+table+" (day, at, kind) VALUES (?, ?, ?)", day, at, "usual").Exec()
	default:
		return session.Query("SELECT kind FROM "+table+" WHERE day = ? AND at = ?", day, at).Exec()
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
