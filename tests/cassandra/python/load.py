"""Reads and writes on a ring through a proxy in front of each of its nodes, and says where each request went.

usage: load.py PORT NODE=PROXY NODE=PROXY ...

The keyspaces are those that ring.py has made. Prints JSON lines, one for each request: its statement (`batch` for a batch),
whether it writes, the node that coordinated it (by host_id, as the driver saw it), and of each partition that it names the
token and the replicas of the driver's own token map; no partitions for a scan.
"""

import json
import sys

from cassandra.cluster import Cluster, ExecutionProfile
from cassandra.policies import AddressTranslator, RoundRobinPolicy, TokenAwarePolicy
from cassandra.query import BatchStatement, BatchType

from ring import KEYSPACES

KEYS = 20


class ThroughProxies(AddressTranslator):
    """Each node is reached through the proxy in front of it, at the same port."""

    def __init__(self, proxies):
        self.proxies = proxies

    def translate(self, addr):
        return self.proxies.get(addr, addr)


def connect(port, proxies):
    profiles = {
        "aware": ExecutionProfile(TokenAwarePolicy(RoundRobinPolicy()), request_timeout=60),
        "in turn": ExecutionProfile(RoundRobinPolicy(), request_timeout=60),
    }
    return Cluster(
        list(proxies.values()),
        port=port,
        protocol_version=5,
        address_translator=ThroughProxies(proxies),
        execution_profiles=profiles,
        connect_timeout=60,
        control_connection_timeout=60,
    )


class Asker:
    def __init__(self, session, keyspace):
        self.session = session
        self.keyspace = keyspace

    def ask(self, policy, name, statement, partitions):
        future = self.session.execute_async(statement, execution_profile=policy)
        future.result()
        metadata = self.session.cluster.metadata
        token_of = metadata.token_map.token_class.from_key
        line = {
            "cql": name,
            "write": not name.startswith("SELECT"),
            "coordinator": str(future.coordinator_host.host_id),
            "partitions": [
                {
                    "token": token_of(key).value,
                    "replicas": [str(host.host_id) for host in metadata.get_replicas(self.keyspace, key)],
                }
                for key in partitions
            ],
        }
        print(json.dumps(line))


def requests(session, keyspace):
    asker = Asker(session, keyspace)
    insert = session.prepare(f"INSERT INTO {keyspace}.t (k, n, v) VALUES (?, ?, ?)")
    select = session.prepare(f"SELECT v FROM {keyspace}.t WHERE k = ? AND n = ?")
    several = session.prepare(f"SELECT v FROM {keyspace}.t WHERE k = ? AND n IN ?")
    for number in range(KEYS):
        key = (f"load {number}", number * 104729)
        written, read = insert.bind((*key, number)), select.bind(key)
        asker.ask("in turn", insert.query_string, written, [written.routing_key])
        asker.ask("aware", select.query_string, read, [read.routing_key])
    for number in range(KEYS):
        name = f"load {number}"
        keys = [select.bind((name, n)).routing_key for n in range(3)]
        asker.ask("in turn", several.query_string, several.bind((name, [0, 1, 2, 1])), keys)
    batch = BatchStatement(BatchType.UNLOGGED)
    for n in range(4):
        batch.add(insert, ("batch", n, n))
    asker.ask("in turn", "batch", batch, [insert.bind(("batch", n, n)).routing_key for n in range(4)])
    scan = f"SELECT v FROM {keyspace}.t"
    asker.ask("in turn", scan, session.prepare(scan).bind(()), [])


def main(port, proxies):
    with connect(int(port), dict(pair.split("=") for pair in proxies)) as cluster:
        session = cluster.connect()
        for keyspace in KEYSPACES:
            requests(session, keyspace)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
