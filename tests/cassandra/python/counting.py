"""An application that knows of each of its requests how many partitions it touches.

usage: counting.py NODE_HOST NODE_PORT A_HOST A_PORT B_HOST B_PORT VERSION KEYSPACE

It asks through the two proxies A and B, which stand before the same node; the node itself it asks only for what proxies are
not to see. A case is a word of its statement that no other statement has: an alias, or a column or table of its own. The last
lines are {"asked": ...}, one for each case and proxy. What a case touches is worked out here, and held against the server's
own traces where the version of the protocol is 5.
"""

import json
import re
import sys
import time
from collections import Counter, defaultdict

import counting_cases
from cassandra import ConsistencyLevel, InvalidRequest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, ResponseFuture
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy
from cassandra.query import BatchStatement, tuple_factory

CLASSES = ("single", "multi", "token-range", "scan", "index", "unknown")
PREPARED_AGAIN = []
TRACED_WITHIN_SECS = 300


def count_what_is_prepared_again():
    """The driver answers "unprepared" by itself: the refused request is on the wire all the same."""
    again = ResponseFuture._reprepare

    def counted(self, *arguments):
        PREPARED_AGAIN.append(arguments)
        return again(self, *arguments)

    ResponseFuture._reprepare = counted


class Case:
    """What was asked under one word, through one proxy."""

    def __init__(self):
        self.counts = []
        self.classes = Counter()
        self.coverage = Counter()
        self.refused = 0

    def add(self, coverage, kind, count):
        self.coverage[coverage] += 1
        self.classes[kind] += 1
        if count is not None:
            self.counts.append(count)

    def account(self):
        # The class of a pattern is the one that most executions have, and the worse of two.
        kinds = sorted(self.classes, key=lambda kind: (self.classes[kind], CLASSES.index(kind)))
        return {
            "requests": sum(self.coverage.values()),
            "refused": self.refused,
            "partitions": sum(self.counts),
            "min": min(self.counts, default=0),
            "max": max(self.counts, default=0),
            "class": kinds[-1] if kinds else "unknown",
            "coverage": dict(self.coverage),
        }


class Application:
    """Sessions through both proxies, and the account of what is asked."""

    def __init__(self, sessions, version, keyspace):
        self.sessions = sessions
        self.version = version
        self.keyspace = keyspace
        self.cases = defaultdict(Case)
        self.traced = []

    def prepare(self, text, through="a"):
        return self.sessions[through].prepare(text)

    def define(self, *statements, through="a"):
        for statement in statements:
            self.sessions[through].execute(statement)

    def exact(self, case, count, statement, values=None, through="a", traced=True):
        """One request that touches so many partitions."""
        trace_id, rows = self.send(case, statement, values, through, traced and self.version >= 5)
        self.cases[case, through].add("exact", "single" if count <= 1 else "multi", count)
        if trace_id:
            self.traced.append((case, (count, count), text(statement), [trace_id]))
        return rows

    def in_pages(self, case, count, statement, values, pages):
        """One read that names so many partitions, and comes in so many pages."""
        coverage, kind = ("exact", "single") if count == 1 else ("bounded", "multi")
        trace_ids, paging_state = [], None
        for page in range(pages):
            trace_id, answer = self.send_page(case, statement, values, "a", self.version >= 5, paging_state)
            paging_state = answer.paging_state
            assert (paging_state is None) == (page + 1 == pages), (case, page, answer.current_rows)
            self.cases[case, "a"].add(coverage, kind, 1 if page else count)
            trace_ids.append(trace_id)
        if trace_ids[0]:
            # At most one partition is touched again with each page after the first.
            self.traced.append((case, (count, count + pages - 1), text(statement), trace_ids))

    def at_least(self, case, count, statement, values=None):
        """One request whose keys the server computes: so many partitions are certain."""
        self.send(case, statement, values)
        self.cases[case, "a"].add("bounded", "single" if count <= 1 else "multi", count)

    def at_most(self, case, count, statement, values=None):
        """One read that names so many partitions, and may end before it has come to all of them."""
        self.send(case, statement, values)
        self.cases[case, "a"].add("bounded", "multi", count)

    def ring(self, case, kind, statement, values=None):
        """One read that names no partition."""
        self.send(case, statement, values)
        self.cases[case, "a"].add("scan", kind, None)

    def refused(self, case, statement, values=None):
        """One request that the server refuses for what is bound to it, or for what it is."""
        try:
            self.send(case, statement, values)
        except InvalidRequest:
            self.cases[case, "a"].refused += 1
        else:
            raise AssertionError(f"{case}: the server does not refuse {text(statement)} with {values}")

    def send(self, case, statement, values=None, through="a", traced=False):
        trace_id, answer = self.send_page(case, statement, values, through, traced)
        assert answer.paging_state is None, f"{case}: more than one page"
        return trace_id, answer.current_rows

    def send_page(self, case, statement, values, through, traced, paging_state=None):
        assert re.search(rf"\b{case}\b", text(statement)), (case, text(statement))
        before = len(PREPARED_AGAIN)
        try:
            session = self.sessions[through]
            future = session.execute_async(statement, values, trace=traced, paging_state=paging_state)
            answer = future.result()
        except Exception as error:
            if not isinstance(error, InvalidRequest):
                print(f"{case}: {text(statement)} with {values}: {error}", flush=True)
            raise
        finally:
            self.cases[case, through].refused += len(PREPARED_AGAIN) - before
        return (future.get_query_trace_ids()[-1] if traced else None), answer

    def disagreements_with_the_server(self, direct):
        """What the traces say of the exact counts, where they say something else."""
        ended = direct.prepare("SELECT duration FROM system_traces.sessions WHERE session_id = ?")
        activities = direct.prepare("SELECT activity FROM system_traces.events WHERE session_id = ?")
        deadline = time.monotonic() + TRACED_WITHIN_SECS
        for case, (least, most), statement, trace_ids in self.traced:
            events = []
            for trace_id in trace_ids:
                # The duration is written last.
                while not any(duration for (duration,) in direct.execute(ended, (trace_id,))):
                    assert time.monotonic() < deadline, f"{case}: no trace within {TRACED_WITHIN_SECS} s"
                    time.sleep(0.02)
                events += [activity for (activity,) in direct.execute(activities, (trace_id,))]
            seen = touched(statement, events)
            if not least <= seen <= most:
                yield f"{case}: {least} to {most} expected, {seen} traced: {statement} {events}"


def text(statement):
    """The CQL of a request."""
    if isinstance(statement, str):
        return statement
    if isinstance(statement, BatchStatement):
        return "; ".join(statement.texts)
    return statement.query_string


def touched(statement, events):
    """Partitions read or written, in the words of Cassandra 5.0's and 6.0's traces, on a cluster of one node."""
    if statement.startswith("BEGIN TRANSACTION"):
        return max(map(accords_keys, events), default=0)
    tables = set(re.findall(r"(?:FROM|INTO|UPDATE) (?:\w+\.)?(\w+)", statement))
    if not statement.startswith("SELECT"):
        return sum(event in {f"Adding to {table} memtable" for table in tables} for event in events)
    by_index = sum(event.startswith("Executing read on ") and " using index" in event for event in events)
    by_key = sum(event in {f"Executing single-partition query on {table}" for table in tables} for event in events)
    return by_index or by_key


def accords_keys(event):
    """The partitions that Accord is asked to order a transaction on: tokens, by table."""
    asked = re.fullmatch(r"(?:Local PreAccept|GetEphemeralReadDeps) for \[\[.*?\]\] and (.*)", event)
    tables = re.findall(r"tid:[0-9a-f]+:\[(.*?)\]", asked[1]) if asked else []
    return sum(len(tokens.split(",")) for tokens in tables)


def connect(host, port, version):
    patient = ExecutionProfile(
        # Accord knows no local levels.
        consistency_level=ConsistencyLevel.ONE,
        load_balancing_policy=RoundRobinPolicy(),
        retry_policy=FallthroughRetryPolicy(),
        request_timeout=60,
        row_factory=tuple_factory,
    )
    return Cluster(
        [host],
        port=int(port),
        protocol_version=version,
        execution_profiles={EXEC_PROFILE_DEFAULT: patient},
        connect_timeout=60,
        control_connection_timeout=60,
        idle_heartbeat_interval=0,
        # There is one node: no other has to learn of a table before the next statement.
        max_schema_agreement_wait=0,
        schema_metadata_enabled=False,
        token_metadata_enabled=False,
    )


def main(*arguments):
    *addresses, version, keyspace = arguments
    version = int(version)
    count_what_is_prepared_again()
    clusters = [connect(host, port, version) for host, port in zip(addresses[::2], addresses[1::2])]
    sessions = dict(zip(("node", "a", "b"), (cluster.connect() for cluster in clusters)))
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    sessions["a"].execute(f"DROP KEYSPACE IF EXISTS {keyspace}")
    sessions["a"].execute(f"CREATE KEYSPACE {keyspace} WITH replication = {replication}")
    for session in sessions.values():
        session.set_keyspace(keyspace)
    app = Application(sessions, version, keyspace)
    ((release,),) = sessions["node"].execute("SELECT release_version FROM system.local")
    for step in counting_cases.steps(release):
        began = time.monotonic()
        step(app)
        print(f"{step.__name__}: {time.monotonic() - began:.1f} s", flush=True)
    disagreements = list(app.disagreements_with_the_server(sessions["node"]))
    for cluster in clusters:
        cluster.shutdown()
    assert not disagreements, "\n".join(disagreements)
    for (case, through), account in sorted(app.cases.items()):
        print(json.dumps({"asked": {"proxy": through, "case": case, **account.account()}}))


if __name__ == "__main__":
    main(*sys.argv[1:])
