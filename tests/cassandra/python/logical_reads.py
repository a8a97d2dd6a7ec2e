"""Reads that are more than one request: pages, a walk through all token ranges, a statement that the server has forgotten.

usage: logical_reads.py HOST PORT

Makes the keyspace `logical_reads` and prints one line of JSON: what it has asked for, counted where it is sent.
"""

import json
import sys

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy

PARTITIONS = 150
ROWS_EACH = 4
PAGE = 45
RING = (-(2**63), 2**63 - 1)


def define(session):
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    session.execute("DROP KEYSPACE IF EXISTS logical_reads")
    session.execute(f"CREATE KEYSPACE logical_reads WITH replication = {replication}")
    session.set_keyspace("logical_reads")
    for table in ("paged", "swept"):
        session.execute(f"CREATE TABLE {table} (k int, c int, v text, PRIMARY KEY (k, c))")
        insert = session.prepare(f"INSERT INTO {table} (k, c, v) VALUES (?, ?, 'x')")
        rows = [(k, c) for k in range(PARTITIONS) for c in range(ROWS_EACH)]
        execute_concurrent_with_args(session, insert, rows, concurrency=64)
    session.execute("CREATE TABLE altered (k int PRIMARY KEY, v int)")


def read_in_pages(session):
    """One whole read, and one that stops after its second page."""
    select = session.prepare("SELECT c, k, v FROM paged")
    select.fetch_size = PAGE
    result = session.execute(select)
    pages, rows = 1, len(result.current_rows)
    while result.has_more_pages:
        result.fetch_next_page()
        pages, rows = pages + 1, rows + len(result.current_rows)
    session.execute(select).fetch_next_page()
    return {"requests": pages + 2, "reads": 2, "pages": pages, "rows": rows, "partitions": PARTITIONS}


def sweep(session, tokens):
    """What lies between the tokens of the ring, halved: twice as many reads as the node has tokens, and the ends."""
    ends = sorted({RING[0], *tokens, RING[1]})
    ends = sorted({*ends, *((a + b) // 2 for a, b in zip(ends, ends[1:]))})
    select = session.prepare("SELECT k, c FROM swept WHERE token(k) > ? AND token(k) <= ?")
    ranges = list(zip(ends, ends[1:]))
    results = execute_concurrent_with_args(session, select, ranges, concurrency=8)
    rows = sum(len(list(result)) for _, result in results)
    return {"requests": len(ranges), "rows": rows, "partitions": PARTITIONS}


def prepare_again(session):
    """The server forgets prepared statements of an altered table; the driver is told so once and prepares them again."""
    select = session.prepare("SELECT v FROM altered WHERE k = ?")
    session.execute(select, (1,))
    session.execute("ALTER TABLE altered ADD w text")
    for _ in range(2):
        session.execute(select, (1,))
    return {"answered": 3}


def main(host, port):
    profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), retry_policy=FallthroughRetryPolicy(), request_timeout=60)
    cluster = Cluster(
        [host],
        port=int(port),
        protocol_version=5,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=60,
        control_connection_timeout=60,
        idle_heartbeat_interval=0,
    )
    with cluster:
        session = cluster.connect()
        define(session)
        tokens = [token.value for token in cluster.metadata.token_map.ring]
        paged, swept, altered = read_in_pages(session), sweep(session, tokens), prepare_again(session)
    print(json.dumps({"paged": paged, "swept": swept, "altered": altered}))


if __name__ == "__main__":
    main(*sys.argv[1:])
