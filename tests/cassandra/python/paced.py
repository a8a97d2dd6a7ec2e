"""A small service that sends requests at a steady rate, and records how long each of them took.

usage: paced.py HOST PORT SECONDS KEYSPACE

Makes the keyspace, then reads and writes by key, with one badly modelled request of each kind now and then. Prints one JSON line for each
second: its Unix time, the latencies of the requests that began in it (in microseconds), and how many requests failed.
"""

import json
import sys
import time

from cassandra import ConsistencyLevel
from cassandra.cluster import Cluster, ExecutionProfile
from cassandra.query import BatchStatement, BatchType

PER_SECOND = 100
KEYS = 200


def make_tables(session, keyspace):
    session.execute(
        f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    )
    session.execute(f"CREATE TABLE {keyspace}.users (id int PRIMARY KEY, name text, city text)")


class Requests:
    """What is sent in turn: mostly reads and writes of one partition."""

    def __init__(self, session, keyspace):
        users = f"{keyspace}.users"
        self.session = session
        self.write = session.prepare(f"INSERT INTO {users} (id, name, city) VALUES (?, ?, ?)")
        self.read = session.prepare(f"SELECT name, city FROM {users} WHERE id = ?")
        self.several = session.prepare(f"SELECT name FROM {users} WHERE id IN ?")
        self.filtering = f"SELECT id FROM {users} WHERE city = 'city 3' ALLOW FILTERING"

    def send(self, number):
        key = number % KEYS
        if number % 50 == 10:
            self.session.execute(self.filtering)
        elif number % 50 == 20:
            self.session.execute(self.several, ([key, key + 1, key + 2, key + 3],))
        elif number % 50 == 30:
            batch = BatchStatement(BatchType.UNLOGGED, consistency_level=ConsistencyLevel.ONE)
            for other in range(key, key + 12):
                batch.add(self.write, (other, f"name {other}", f"city {other % 7}"))
            self.session.execute(batch)
        elif number % 2:
            self.session.execute(self.write, (key, f"name {key}", f"city {key % 7}"))
        else:
            self.session.execute(self.read, (key,))


def run(requests, seconds):
    begun = time.monotonic()
    second, latencies, failed = int(time.time()), [], 0
    for number in range(int(seconds * PER_SECOND)):
        time.sleep(max(0, begun + number / PER_SECOND - time.monotonic()))
        if int(time.time()) != second:
            print(json.dumps({"second": second, "latencies_us": latencies, "failed": failed}), flush=True)
            second, latencies, failed = int(time.time()), [], 0
        before = time.monotonic()
        try:
            requests.send(number)
            latencies.append(int((time.monotonic() - before) * 1e6))
        except Exception as error:  # every kind of failure counts
            failed += 1
            print(f"failed: {error!r}", file=sys.stderr, flush=True)
    print(json.dumps({"second": second, "latencies_us": latencies, "failed": failed}), flush=True)


def main(host, port, seconds, keyspace):
    profile = ExecutionProfile(consistency_level=ConsistencyLevel.ONE, request_timeout=30)
    patience = {"connect_timeout": 60, "control_connection_timeout": 60}
    with Cluster([host], port=int(port), execution_profiles={"default": profile}, **patience) as cluster:
        session = cluster.connect()
        make_tables(session, keyspace)
        run(Requests(session, keyspace), float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
