//go:build !gocql1

package main

import (
	"context"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
	"github.com/apache/cassandra-gocql-driver/v2/snappy"
)

// What this program uses of gocql 2; gocql1.go has the same of gocql 1.
type (
	clusterConfig     = gocql.ClusterConfig
	session           = gocql.Session
	batchType         = gocql.BatchType
	iterator          = gocql.Iter
	hostInfo          = gocql.HostInfo
	selectionPolicy   = gocql.HostSelectionPolicy
	hostFilter        = gocql.HostFilterFunc
	password          = gocql.PasswordAuthenticator
	tlsOptions        = gocql.SslOptions
	uuid              = gocql.UUID
	consistency       = gocql.Consistency
	fixedReconnect    = gocql.ConstantReconnectionPolicy
	addressTranslator = gocql.AddressTranslatorFunc
)

const (
	one   = gocql.One
	three = gocql.Three
	all   = gocql.All

	logged   = gocql.LoggedBatch
	unlogged = gocql.UnloggedBatch
	counters = gocql.CounterBatch

	hasVectors           = true
	hasKeyspaceOfRequest = true
)

var (
	newCluster = gocql.NewCluster
	unset      = gocql.UnsetValue
	tokenAware = gocql.TokenAwareHostPolicy
	roundRobin = gocql.RoundRobinHostPolicy
	newTracer  = gocql.NewTraceWriter
)

func compress(cluster *clusterConfig, with string) {
	switch with {
	case "lz4":
		cluster.Compressor = lz4.LZ4Compressor{}
	case "snappy":
		cluster.Compressor = snappy.SnappyCompressor{}
	}
}

func keyspaceOf(s *session, statement, keyspace string, values ...interface{}) *iterator {
	return s.Query(statement, values...).SetKeyspace(keyspace).Iter()
}

func agree(s *session) error { return s.AwaitSchemaAgreement(context.Background()) }

// The version that was negotiated, as far as the driver tells.
const negotiated = 5
