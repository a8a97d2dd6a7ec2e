// What an application on gocql relies on: the checks of ../../drivers, one line of JSON each.
//
// usage: matrix NAME=VALUE..., see ../../drivers/README.md
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const patience = 90 * time.Second

var errLate = errors.New("too late")

// absent is what the driver does not have, or not in this version of the protocol.
type absent string

func (reason absent) Error() string { return string(reason) }

type application struct {
	arguments map[string]string
	keyspace  string
	nodes     int
	version   int
	hosts     *hosts
	// Without a keyspace: gocql sets one only when it connects.
	plain   *session
	session *session
}

// configure says how to connect; with contactOnly, to the contact point and no other node.
func (app *application) configure(contactOnly bool) *clusterConfig {
	given := app.arguments
	cluster := newCluster(given["host"])
	cluster.Port = number(given["port"])
	if given["version"] != "auto" {
		cluster.ProtoVersion = number(given["version"])
	}
	compress(cluster, given["compression"])
	cluster.Timeout = time.Minute
	cluster.ConnectTimeout = time.Minute
	cluster.WriteTimeout = time.Minute
	cluster.MaxWaitSchemaAgreement = time.Minute
	cluster.ReconnectInterval = time.Second
	cluster.Consistency = one
	cluster.NumConns = 1
	cluster.PoolConfig.HostSelectionPolicy = tokenAware(roundRobin())
	if user, ok := given["user"]; ok {
		cluster.Authenticator = password{Username: user, Password: given["password"]}
	}
	if authority, ok := given["ca"]; ok {
		cluster.SslOpts = &tlsOptions{Config: tlsConfig(authority, given), EnableHostVerification: true}
	}
	if pairs, ok := given["translate"]; ok {
		cluster.AddressTranslator = translator(pairs)
	}
	if contactOnly {
		cluster.HostFilter = firstOnly()
	}
	return cluster
}

// translator says where to connect to in place of a node's own address.
func translator(pairs string) addressTranslator {
	translated := map[string]net.IP{}
	for _, pair := range strings.Split(pairs, ",") {
		node, listener, _ := strings.Cut(pair, "/")
		translated[node] = net.ParseIP(listener)
	}
	return func(address net.IP, port int) (net.IP, int) {
		if listener, ok := translated[address.String()]; ok {
			return listener, port
		}
		return address, port
	}
}

// firstOnly takes the node that gocql names first, which is the contact point, whatever address it has for it.
func firstOnly() hostFilter {
	var mutex sync.Mutex
	first := ""
	return func(host *hostInfo) bool {
		mutex.Lock()
		defer mutex.Unlock()
		if first == "" {
			first = host.HostID()
		}
		return host.HostID() == "" || host.HostID() == first
	}
}

func tlsConfig(authority string, given map[string]string) *tls.Config {
	pem, err := os.ReadFile(authority)
	check(err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if _, ok := given["cert"]; ok {
		pair, err := tls.LoadX509KeyPair(given["cert"], given["key"])
		check(err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func (app *application) open(cluster *clusterConfig) *session {
	found, err := cluster.CreateSession()
	check(err)
	return found
}

// stage waits until the harness has come to this stage of an outage.
func (app *application) stage(name string) {
	eventuallyWithin(3*patience, "stage "+name, func() bool {
		text, err := os.ReadFile(app.arguments["stage"])
		check(err)
		for _, word := range strings.Fields(string(text)) {
			if word == name {
				return true
			}
		}
		return false
	})
}

func eventually(what string, condition func() bool) { eventuallyWithin(patience, what, condition) }

func eventuallyWithin(limit time.Duration, what string, condition func() bool) {
	deadline := time.Now().Add(limit)
	for !condition() {
		if time.Now().After(deadline) {
			panic(fmt.Errorf("%w: %s", errLate, what))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// rows sends one request and returns its rows, each as JSON has it.
func rows(s *session, statement string, values ...interface{}) []map[string]interface{} {
	found, err := s.Query(statement, values...).Iter().SliceMap()
	check(err)
	return found
}

func (app *application) rows(statement string, values ...interface{}) []map[string]interface{} {
	return rows(app.session, statement, values...)
}

func (app *application) do(statement string, values ...interface{}) {
	check(app.session.Query(statement, values...).Exec())
}

type line struct {
	Check   string      `json:"check"`
	Outcome string      `json:"outcome"`
	Detail  interface{} `json:"detail"`
}

func say(what interface{}) {
	text, err := json.Marshal(what)
	check(err)
	fmt.Println(string(text))
}

func passed(check string, detail interface{}) { say(line{check, "passed", detail}) }

func reached(stage string) { say(map[string]string{"reached": stage}) }

// run prints what a check found; one that has parts prints them itself and returns nil.
func run(name string, app *application, perform func(*application) interface{}) {
	defer func() {
		switch failure := recover().(type) {
		case nil:
		case absent:
			say(line{name, "absent", string(failure)})
		default:
			say(line{name, "failed", fmt.Sprint(failure)})
		}
	}()
	if detail := perform(app); detail != nil {
		passed(name, detail)
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

func main() {
	given := map[string]string{}
	for _, argument := range os.Args[1:] {
		name, value, _ := strings.Cut(argument, "=")
		given[name] = value
	}
	app := &application{arguments: given, keyspace: given["keyspace"], nodes: number(given["nodes"]), version: negotiated}
	if given["version"] != "auto" {
		app.version = number(given["version"])
	}
	wanted := map[string]bool{}
	for _, name := range strings.Split(given["checks"], ",") {
		wanted[name] = true
	}
	for _, one := range checks {
		if wanted[one.name] || wanted["session"] && one.name != "outage" && one.name != "reconnect" {
			run(one.name, app, one.perform)
		}
	}
}
