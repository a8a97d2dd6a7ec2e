"""An application whose users do one operation after the other: joins, lookups, copies, and what only looks like such.

usage: mixed.py host=… port=… keyspace=… application=… version=4|5 compression=none|lz4 users=… rate=… seconds=… \
operations=a,b,c seed=… labels=FILE

Its tables and their rows are there. The users share sessions, and with those connections; together they send `rate` requests
in a second, or as many as the driver can. At the end it writes to FILE what it has done, a line of JSON for each kind of operation: what it is,
on which tables, how often, and how many keys each asked for. Nothing of that is on the wire.
"""

import heapq
import itertools
import json
import random
import sys
import threading
import time
from collections import defaultdict

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RoundRobinPolicy
from cassandra.protocol import StartupMessage
from cassandra.query import BatchStatement, tuple_factory

from mixed_operations import OPERATIONS, STATEMENTS

# Of one application; each has a pool of its own.
SESSIONS = 2


def connections_of(application):
    """Connections that tell servers the name of the application, which the driver itself does not do."""

    class Named(Cluster.connection_class):
        def send_msg(self, message, *arguments, **options):
            if isinstance(message, StartupMessage):
                message.options["APPLICATION_NAME"] = application
            return super().send_msg(message, *arguments, **options)

    return Named


class Labels:
    """What was done: operations and their keys, by kind and tables."""

    def __init__(self):
        self.lock = threading.Lock()
        self.done = defaultdict(lambda: [0, 0])
        self.requests = 0

    def add(self, operation, keys, requests):
        with self.lock:
            done = self.done[operation]
            done[0] += 1
            done[1] += keys
            self.requests += requests

    def write(self, file, keyspace, took):
        with open(file, "w", encoding="utf-8") as labels:
            for name, (count, keys) in sorted(self.done.items()):
                _, kind, tables = OPERATIONS[name]
                label = {
                    "operation": name,
                    "kind": kind,
                    "tables": [f"{keyspace}.{table}" for table in tables],
                    "count": count,
                    "fan_out": keys / count,
                }
                print(json.dumps(label), file=labels)
            print(json.dumps({"requests": self.requests, "seconds": took}), file=labels)


class Pace:
    """So many requests in a second, of all users together, in no rhythm."""

    def __init__(self, rate):
        self.rate = rate
        self.lock = threading.Lock()
        self.next = time.monotonic()

    def wait(self, requests):
        """Until the next operation is due, after one of so many requests."""
        with self.lock:
            # What could not be sent in time is not made up for.
            due = max(self.next, time.monotonic() - 0.1)
            self.next = due + random.uniform(0, 2) * requests / self.rate
        time.sleep(max(0, due - time.monotonic()))


class Shop:
    """What operations send, through any of the sessions."""

    def __init__(self, sessions, keyspace, operations):
        self.sessions = itertools.cycle(sessions)
        named = [name for operation in operations for name in OPERATIONS[operation][0].STATEMENTS]
        self.prepared = {name: sessions[0].prepare(STATEMENTS[name].format(k=keyspace)) for name in named}

    def send(self, name, *values, page=None):
        statement = self.prepared[name].bind(values)
        if page:
            statement.fetch_size = page
        return next(self.sessions).execute_async(statement)

    def ask(self, name, *values):
        return self.send(name, *values).result().all()

    def ask_all(self, name, all_values):
        """The same for each of these values, at the same time."""
        for future in [self.send(name, *values) for values in all_values]:
            future.result()

    def pages(self, name, *values, page):
        """The rows, and how many requests they took."""
        rows = list(self.send(name, *values, page=page).result())
        return rows, -(-len(rows) // page)

    def batch(self, *parts):
        batch = BatchStatement(consistency_level=ConsistencyLevel.ONE)
        for name, values in parts:
            batch.add(self.prepared[name], values)
        next(self.sessions).execute(batch)


class User(threading.Thread):
    """Somebody who does operations, and comes back to what he has seen some seconds later."""

    def __init__(self, shop, names, pace, labels, until, seed):
        super().__init__()
        self.shop, self.names, self.pace, self.labels, self.until = shop, names, pace, labels, until
        self.random = random.Random(seed)
        self.later = []
        self.failure = None

    def run(self):
        requests = 0
        try:
            while time.monotonic() < self.until:
                self.pace.wait(requests)
                requests = self.do()
        except Exception as failure:
            self.failure = failure

    def do(self):
        if self.later and self.later[0][0] <= time.monotonic():
            _, _, what = heapq.heappop(self.later)
            self.shop.ask(*what)
            return 1
        name = self.random.choice(self.names)
        keys, requests = OPERATIONS[name][0](self.shop, self.random, self.come_back)
        self.labels.add(name, keys, requests)
        return requests

    def come_back(self, *what):
        heapq.heappush(self.later, (time.monotonic() + self.random.uniform(0.4, 3), self.random.random(), what))


def main(host, port, keyspace, application, version, compression, users, rate, seconds, operations, seed, labels):
    profile = ExecutionProfile(
        load_balancing_policy=RoundRobinPolicy(),
        consistency_level=ConsistencyLevel.ONE,
        row_factory=tuple_factory,
        request_timeout=60,
    )
    cluster = Cluster(
        [host],
        port=int(port),
        protocol_version=int(version),
        compression=False if compression == "none" else compression,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connection_class=connections_of(application),
        connect_timeout=60,
        control_connection_timeout=60,
    )
    with cluster:
        names = operations.split(",")
        shop = Shop([cluster.connect() for _ in range(SESSIONS)], keyspace, names)
        done, began = Labels(), time.monotonic()
        until, pace = began + float(seconds), Pace(float(rate))
        all_users = [User(shop, names, pace, done, until, f"{seed} {user}") for user in range(int(users))]
        for user in all_users:
            user.start()
        for user in all_users:
            user.join()
        done.write(labels, keyspace, time.monotonic() - began)
        failures = [user.failure for user in all_users if user.failure]
        if failures:
            raise failures[0]


if __name__ == "__main__":
    main(**dict(argument.split("=", 1) for argument in sys.argv[1:]))
