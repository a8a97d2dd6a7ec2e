"""Looks on while nodes join and leave, and goes on asking.

usage: joining.py HOST PORT STAGES

Prints JSON lines: `seen` when it knows the nodes, `added` for each that it hears of, with whether somebody listens there at that
moment and which node it finds there, `removed`, and `ended`, when the file STAGES says so.
"""

import json
import queue
import socket
import sys
import threading
import time

from cassandra.cluster import Cluster
from cassandra.policies import HostStateListener
from cassandra.query import SimpleStatement

PRINTING = threading.Lock()


def say(event, **fields):
    with PRINTING:
        print(json.dumps({"event": event, **fields}), flush=True)


def accepts(host):
    try:
        socket.create_connection((host.endpoint.address, host.endpoint.port), timeout=5).close()
        return True
    except OSError:
        return False


class Listener(HostStateListener):
    def __init__(self):
        self.added = queue.Queue()

    def on_add(self, host):
        self.added.put((host, accepts(host)))

    def on_remove(self, host):
        say("removed", address=str(host.endpoint))

    def on_up(self, host):
        pass

    def on_down(self, host):
        pass


def visit(session, host):
    """The node that is found there, once the driver has connections to it."""
    deadline = time.monotonic() + 300
    while True:
        try:
            return str(session.execute("SELECT host_id FROM system.local", host=host).one().host_id)
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def main(host, port, stages):
    listener = Listener()
    with Cluster([host], port=int(port), protocol_version=5, connect_timeout=60, control_connection_timeout=60) as cluster:
        session = cluster.connect()
        say("seen", addresses=sorted(str(host.endpoint) for host in cluster.metadata.all_hosts()))
        cluster.register_listener(listener)
        ask = SimpleStatement("SELECT release_version FROM system.local", is_idempotent=True)
        asked, errors = 0, []
        while "end" not in open(stages).read():
            try:
                session.execute(ask, timeout=60)
                asked += 1
            except Exception as error:
                errors.append(repr(error))
            while not listener.added.empty():
                added, accepted = listener.added.get()
                say("added", address=str(added.endpoint), accepts=accepted, host_id=visit(session, added))
            time.sleep(0.02)
        say("ended", asked=asked, errors=errors)


if __name__ == "__main__":
    main(*sys.argv[1:4])
