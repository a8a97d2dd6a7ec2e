//go:build gocql1

package main

import (
	"context"

	"github.com/gocql/gocql"
)

// What this program uses of gocql 1; gocql2.go has the same of gocql 2.
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

	hasVectors           = false
	hasKeyspaceOfRequest = false
)

var (
	newCluster = gocql.NewCluster
	unset      = gocql.UnsetValue
	tokenAware = gocql.TokenAwareHostPolicy
	roundRobin = gocql.RoundRobinHostPolicy
	newTracer  = gocql.NewTraceWriter
)

func compress(cluster *clusterConfig, with string) {
	if with == "snappy" {
		cluster.Compressor = gocql.SnappyCompressor{}
	}
}

func keyspaceOf(*session, string, string, ...interface{}) *iterator { return nil }

func agree(s *session) error { return s.AwaitSchemaAgreement(context.Background()) }

// The version that was negotiated, as far as the driver tells.
const negotiated = 4
