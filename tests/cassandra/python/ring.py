"""Writes and reads keys on a ring through one of its nodes, and says which nodes hold them.

usage: ring.py NODE_HOST NODE_PORT PROXY_HOST PROXY_PORT

Prints JSON lines, one for each key: its keyspace, its parts, its token as the driver computes it, and the nodes that read
it for a request that all replicas have to answer, as the server's trace names them.
"""

import json
import sys
import time

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy

KEYS = 30
# The last character is the number of replicas.
KEYSPACES = {
    "simple_1": "{'class': 'SimpleStrategy', 'replication_factor': 1}",
    "simple_2": "{'class': 'SimpleStrategy', 'replication_factor': 2}",
    "network_1": "{'class': 'NetworkTopologyStrategy', 'dc1': 1}",
    "network_2": "{'class': 'NetworkTopologyStrategy', 'dc1': 2}",
    "network_3": "{'class': 'NetworkTopologyStrategy', 'dc1': 3}",
}


def connect(host, port):
    """Every request goes to this address, whatever other nodes there are."""
    profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([host]), request_timeout=60)
    return Cluster(
        [host],
        port=int(port),
        protocol_version=5,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=60,
        control_connection_timeout=60,
    )


def define(session):
    for keyspace, replication in KEYSPACES.items():
        session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {replication}")
        session.execute(f"CREATE TABLE {keyspace}.t (k text, n int, v int, PRIMARY KEY ((k, n)))")


def readers(session, statement, count):
    """The nodes that have read for the statement. Each writes its part of the trace when it likes to: waits for `count`."""
    trace_id = session.execute(statement, trace=True).response_future.get_query_trace_ids()[0]
    events = "SELECT source, activity FROM system_traces.events WHERE session_id = %s"
    deadline = time.monotonic() + 300
    while True:
        found = session.execute(events, [trace_id])
        sources = {event.source for event in found if event.activity == "Executing single-partition query on t"}
        if len(sources) >= count or time.monotonic() > deadline:
            return sorted(sources)
        time.sleep(0.05)


def main(node, proxy):
    with connect(*node) as direct, connect(*proxy) as observed:
        define(direct.connect())
        asking, through = direct.connect(), observed.connect()
        for keyspace in KEYSPACES:
            insert = through.prepare(f"INSERT INTO {keyspace}.t (k, n, v) VALUES (?, ?, ?)")
            select = through.prepare(f"SELECT v FROM {keyspace}.t WHERE k = ? AND n = ?")
            asked = asking.prepare(f"SELECT v FROM {keyspace}.t WHERE k = ? AND n = ?")
            asked.consistency_level = ConsistencyLevel.ALL
            for number in range(KEYS):
                key = (f"key {number}", number * 7919)
                through.execute(insert, (*key, number))
                through.execute(select, key)
                bound = asked.bind(key)
                tokens = direct.metadata.token_map
                token = tokens.token_class.from_key(bound.routing_key).value
                holders = readers(asking, bound, int(keyspace[-1]))
                print(json.dumps({"keyspace": keyspace, "key": key, "token": token, "holders": holders}))


if __name__ == "__main__":
    main(sys.argv[1:3], sys.argv[3:5])
