"""Prepares a statement on one address and executes it on another, as an application does whose proxy is younger than its
prepared statements.

usage: prepared_before.py NODE_HOST NODE_PORT [PROXY_HOST PROXY_PORT]

Without the second address it makes the keyspace `prepared_before`, and prepares only.
"""

import json
import sys

from cassandra.cluster import Cluster

READS = 10


def connect(host, port):
    return Cluster([host], port=int(port), protocol_version=5, connect_timeout=60, control_connection_timeout=60)


def define(session):
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    session.execute("DROP KEYSPACE IF EXISTS prepared_before")
    session.execute(f"CREATE KEYSPACE prepared_before WITH replication = {replication}")
    session.execute("CREATE TABLE prepared_before.t (id int PRIMARY KEY, v int)")


def main(node, proxy):
    with connect(*node) as direct:
        session = direct.connect()
        if not proxy:
            define(session)
        select = session.prepare("SELECT v FROM prepared_before.t WHERE id IN ?")
        if not proxy:
            return
        with connect(*proxy) as observed:
            session = observed.connect()
            for number in range(READS):
                # The other session's statement: its id is sent as it is, this session has never prepared it.
                session.execute(select, ([number, number + 1],))
    print(json.dumps({"reads": READS, "partitions": 2 * READS}))


if __name__ == "__main__":
    main(sys.argv[1:3], sys.argv[3:5])
