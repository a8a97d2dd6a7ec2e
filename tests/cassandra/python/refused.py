"""An application of which the node refuses every statement, or every other one.

usage: refused.py HOST PORT SECONDS all|half

Sends two statements a second, and prints a JSON object: how many were refused and how many were served.
"""

import json
import sys
import time

from cassandra import InvalidRequest
from cassandra.cluster import Cluster

REFUSED = "SELECT v FROM refused.missing WHERE k = 1"


def is_served(session, statement):
    try:
        session.execute(statement, timeout=60)
    except InvalidRequest:
        return False
    return True


def main(host, port, seconds, share):
    with Cluster([host], port=int(port), connect_timeout=60, control_connection_timeout=60) as cluster:
        session = cluster.connect()
        if share == "half":
            make = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
            session.execute(f"CREATE KEYSPACE refused WITH replication = {make}", timeout=60)
            session.execute("CREATE TABLE refused.t (k int PRIMARY KEY)", timeout=60)
        asked = {"refused": 0, "served": 0}
        end = time.monotonic() + float(seconds)
        while time.monotonic() < end:
            asked["refused"] += not is_served(session, REFUSED)
            if share == "half":
                asked["served"] += is_served(session, "SELECT k FROM refused.t WHERE k = 1")
            time.sleep(0.5)
    print(json.dumps(asked))


if __name__ == "__main__":
    main(*sys.argv[1:])
