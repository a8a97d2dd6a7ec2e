"""What an application on the Python driver relies on: the checks of ../drivers, one line of JSON each.

usage: matrix.py NAME=VALUE..., see ../drivers/README.md
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from cassandra import ConsistencyLevel
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import (
    AddressTranslator,
    ConstantReconnectionPolicy,
    DCAwareRoundRobinPolicy,
    FallthroughRetryPolicy,
    HostFilterPolicy,
    TokenAwarePolicy,
)
from cassandra.query import UNSET_VALUE, BatchStatement, BatchType, SimpleStatement

PATIENCE = 90
MEBIBYTE = bytes(range(256)) * 4096


class Absent(Exception):
    """The driver does not have it, or not in this version of the protocol."""


class Translator(AddressTranslator):
    """Where to connect to in place of a node's own address."""

    def __init__(self, pairs):
        self.pairs = dict(pair.split("/") for pair in pairs.split(","))

    def translate(self, address):
        return self.pairs.get(address, address)


class Application:
    def __init__(self, arguments):
        self.arguments = arguments
        self.keyspace = arguments["keyspace"]
        self.nodes = int(arguments["nodes"])
        self.cluster = self.configure()
        self.session = None

    def configure(self, keep_to_contact=False, **changes):
        """A cluster of its own; with `keep_to_contact`, requests go to the contact point only."""
        arguments = {**self.arguments, **changes}
        policy = TokenAwarePolicy(DCAwareRoundRobinPolicy(arguments["dc"]))
        if keep_to_contact:
            # Not by the address alone, at which several nodes may be.
            contact = f"{arguments['host']}:{arguments['port']}"
            policy = HostFilterPolicy(policy, lambda host: str(host.endpoint) == contact)
        profile = ExecutionProfile(
            load_balancing_policy=policy,
            retry_policy=FallthroughRetryPolicy(),
            consistency_level=ConsistencyLevel.ONE,
            request_timeout=60,
        )
        options = {}
        if arguments["version"] != "auto":
            options["protocol_version"] = int(arguments["version"])
        if "translate" in arguments:
            options["address_translator"] = Translator(arguments["translate"])
        if "user" in arguments:
            options["auth_provider"] = PlainTextAuthProvider(arguments["user"], arguments["password"])
        if "ca" in arguments:
            import ssl

            context = ssl.create_default_context(cafile=arguments["ca"])
            if "cert" in arguments:
                context.load_cert_chain(arguments["cert"], arguments["key"])
            options["ssl_context"] = context
        return Cluster(
            [arguments["host"]],
            port=int(arguments["port"]),
            compression=False if arguments["compression"] == "none" else arguments["compression"],
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            connect_timeout=60,
            control_connection_timeout=60,
            idle_heartbeat_timeout=60,
            max_schema_agreement_wait=60,
            reconnection_policy=ConstantReconnectionPolicy(0.5),
            **options,
        )

    def rows(self, statement, values=None, **options):
        return [list(row) for row in self.session.execute(statement, values, **options)]

    def stage(self, name):
        """Waits until the harness has come to this stage of an outage."""
        deadline = time.monotonic() + 3 * PATIENCE
        while name not in open(self.arguments["stage"]).read().split():
            assert time.monotonic() < deadline, f"stage {name} does not come"
            time.sleep(0.05)


def eventually(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        time.sleep(0.05)


def connect(app):
    app.session = app.cluster.connect()
    eventually("all nodes are seen", lambda: len(app.cluster.metadata.all_hosts()) == app.nodes)
    eventually("all nodes are up", lambda: all(host.is_up for host in app.cluster.metadata.all_hosts()))
    hosts = sorted(f"{host.endpoint} {host.datacenter} {host.rack}" for host in app.cluster.metadata.all_hosts())
    return [app.cluster.metadata.cluster_name, app.cluster.protocol_version, hosts]


def ddl(app):
    replication = f"{{'class': 'SimpleStrategy', 'replication_factor': {app.arguments['replication']}}}"
    own = f"{app.keyspace}_own"
    agreed = []
    for statement in (
        f"DROP KEYSPACE IF EXISTS {own}",
        f"CREATE KEYSPACE {own} WITH replication = {replication}",
        f"CREATE TABLE {app.keyspace}.t (id int PRIMARY KEY, name text, note text)",
    ):
        future = app.session.execute_async(statement)
        future.result()
        agreed.append(future.is_schema_agreed)
    app.session.set_keyspace(app.keyspace)
    keyspaces = app.cluster.metadata.keyspaces
    return [agreed, sorted(keyspaces[own].tables), sorted(keyspaces[app.keyspace].tables["t"].columns)]


def simple(app):
    app.session.execute("INSERT INTO t (id, name, note) VALUES (1, 'it''s', 'me')")
    return app.rows("SELECT id, name, note FROM t WHERE id = 1")


def prepared(app):
    insert = app.session.prepare("INSERT INTO t (id, name, note) VALUES (?, ?, ?)")
    for number in range(10):
        app.session.execute(insert, (number, f"n{number}", "x" * number))
    select = app.session.prepare("SELECT id, name, note FROM t WHERE id = ?")
    return [app.rows(select, (number,)) for number in range(10)]


def named(app):
    select = app.session.prepare("SELECT name FROM t WHERE id = :id")
    return [app.rows("SELECT name FROM t WHERE id = %(id)s", {"id": 3}), app.rows(select, {"id": 4})]


def batch(app):
    insert = app.session.prepare("INSERT INTO t (id, name) VALUES (?, ?)")
    for kind in (BatchType.LOGGED, BatchType.UNLOGGED):
        statement = BatchStatement(batch_type=kind)
        statement.add(insert, (20, f"batch {kind}"))
        statement.add(SimpleStatement("INSERT INTO t (id, name) VALUES (%s, %s)"), (21 + kind.value, "simple"))
        app.session.execute(statement)
    counter = BatchStatement(batch_type=BatchType.COUNTER)
    add = app.session.prepare("UPDATE counts SET n = n + ? WHERE id = ?")
    for number in (1, 2, 1):
        counter.add(add, (5, number))
    app.session.execute(counter)
    ids = "(20, 21, 22)"
    return [sorted(app.rows(f"SELECT id, name FROM t WHERE id IN {ids}")), sorted(app.rows("SELECT id, n FROM counts"))]


def paging(app):
    insert = app.session.prepare("INSERT INTO paged (part, seq) VALUES (1, ?)")
    execute_concurrent_with_args(app.session, insert, [(seq,) for seq in range(1050)], concurrency=50)
    select = app.session.prepare("SELECT seq FROM paged WHERE part = 1")
    select.fetch_size = 100
    result = app.session.execute(select)
    pages = [len(result.current_rows)]
    total = sum(row.seq for row in result.current_rows)
    while result.has_more_pages:
        result.fetch_next_page()
        pages.append(len(result.current_rows))
        total += sum(row.seq for row in result.current_rows)
    return [pages, total]


def in_list(app):
    select = app.session.prepare("SELECT id, name FROM t WHERE id IN ?")
    return [sorted(app.rows(select, ([1, 2, 2, 3],))), sorted(app.rows("SELECT id FROM t WHERE id IN (4, 5)"))]


def lwt(app):
    insert = app.session.prepare("INSERT INTO t (id, name) VALUES (?, ?) IF NOT EXISTS")
    first = app.session.execute(insert, (100, "first"))
    second = app.session.execute(insert, (100, "second"))
    updated = app.rows("UPDATE t SET name = 'third' WHERE id = 100 IF name = 'first'")
    serial = SimpleStatement("SELECT name FROM t WHERE id = 100", consistency_level=ConsistencyLevel.SERIAL)
    return [first.was_applied, second.was_applied, updated, app.rows(serial)]


def types(app):
    insert = app.session.prepare("INSERT INTO kinds (id, l, s, m, n, t, u, d, v, i) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
    import decimal

    values = (1, ["b", "a"], {3, 1}, {"one": 1}, {1: [2, 3]}, (1, "two"), ("Main", 1), decimal.Decimal("-1.50"), 2**70, "::1")
    app.session.execute(insert, values)
    return repr([str(value) for value in app.rows("SELECT * FROM kinds WHERE id = 1")[0]])


def vector(app):
    app.session.execute(app.session.prepare("INSERT INTO vectors (id, v) VALUES (1, ?)"), ([1.0, 2.5, -3.0],))
    return app.rows("SELECT v FROM vectors WHERE id = 1")


def blob(app):
    app.session.execute(app.session.prepare("INSERT INTO blobs (id, b) VALUES (1, ?)"), (MEBIBYTE,))
    [[returned]] = app.rows("SELECT b FROM blobs WHERE id = 1")
    assert returned == MEBIBYTE
    return len(returned)


def null(app):
    insert = app.session.prepare("INSERT INTO t (id, name, note) VALUES (?, ?, ?)")
    app.session.execute(insert, (30, "kept", "gone"))
    app.session.execute(insert, (30, "kept", None))
    return app.rows("SELECT name, note FROM t WHERE id = 30")


def unset(app):
    if app.cluster.protocol_version < 4:
        raise Absent("version 3 has no unset values")
    insert = app.session.prepare("INSERT INTO t (id, name, note) VALUES (?, ?, ?)")
    app.session.execute(insert, (31, "first", "kept"))
    app.session.execute(insert, (31, "second", UNSET_VALUE))
    return app.rows("SELECT name, note FROM t WHERE id = 31")


def tracing(app):
    result = app.session.execute("SELECT name FROM t WHERE id = 1", trace=True)
    trace = result.get_query_trace(max_wait_sec=30)

    # The node writes its events on their own, also after the end.
    def has_events():
        trace.populate(max_wait=30)
        return len(trace.events) > 2

    eventually("events of a trace", has_events)
    return [trace.request_type, trace.parameters["query"]]


def warnings(app):
    if app.cluster.protocol_version < 4:
        raise Absent("version 3 has no warnings")
    insert = f"INSERT INTO t (id, note) VALUES (%s, '{'x' * 4000}');"
    text = "BEGIN UNLOGGED BATCH " + "".join(insert % number for number in (40, 41)) + " APPLY BATCH"
    future = app.session.execute_async(text)
    future.result()
    return future.warnings


def failure(app, statement, session=None, **options):
    try:
        (session or app.session).execute(statement, **options)
    except Exception as error:
        return [type(error).__name__, str(error)]
    raise AssertionError(f"{statement} did not fail")


def error_syntax(app):
    return failure(app, "SELEC name FROM t")


def error_invalid(app):
    return [failure(app, "SELECT name FROM no_such_table"), failure(app, "SELECT id FROM t WHERE name = 'x'")]


def error_configuration(app):
    return failure(app, "CREATE KEYSPACE wrong WITH replication = {'class': 'NoSuchStrategy'}")


def error_exists(app):
    return [failure(app, "CREATE TABLE t (id int PRIMARY KEY)"), failure(app, f"CREATE KEYSPACE {app.keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")]


def error_unavailable(app):
    return failure(app, SimpleStatement("SELECT name FROM t WHERE id = 1", consistency_level=ConsistencyLevel.THREE))


def error_function(app):
    return failure(app, "SELECT broken(id) FROM t WHERE id = 1")


def error_read_failure(app):
    """More tombstones than the node puts up with."""
    delete = app.session.prepare("DELETE FROM graves WHERE id = 1 AND seq = ?")
    execute_concurrent_with_args(app.session, delete, [(seq,) for seq in range(110)])
    return failure(app, "SELECT seq FROM graves WHERE id = 1")[0]


def error_unauthorized(app):
    if "user" not in app.arguments:
        raise Absent("the cluster asks for no password")
    role = f"{app.keyspace}_limited"
    app.session.execute(f"CREATE ROLE IF NOT EXISTS {role} WITH PASSWORD = 'limited' AND LOGIN = true")
    with app.configure(user=role, password="limited") as cluster:
        return failure(app, f"SELECT name FROM {app.keyspace}.t WHERE id = 1", cluster.connect())


def password(app):
    if "user" not in app.arguments:
        raise Absent("the cluster asks for no password")
    try:
        with app.configure(password="wrong") as cluster:
            cluster.connect()
    except NoHostAvailable as error:
        return sorted(str(reason) for reason in error.errors.values())
    raise AssertionError("a wrong password was taken")


def use(app):
    other = f"{app.keyspace}_2"
    app.session.execute(f"USE {other}")
    app.session.execute("INSERT INTO moved (id, v) VALUES (1, 7)")
    found = app.rows("SELECT v FROM moved WHERE id = 1")
    app.session.execute(f"USE {app.keyspace}")
    return [found, app.rows("SELECT name FROM t WHERE id = 1")]


def keyspace_of_request(app):
    if app.cluster.protocol_version < 5:
        raise Absent("before version 5 requests have no keyspace")
    other = f"{app.keyspace}_2"
    statement = SimpleStatement("SELECT v FROM moved WHERE id = 1", keyspace=other)
    select = app.session.prepare("SELECT id, v FROM moved WHERE id = ?", keyspace=other)
    return [app.rows(statement), app.rows(select, (1,))]


def prepared_again(app):
    app.session.execute("INSERT INTO altered (id, v) VALUES (1, 1)")
    select = app.session.prepare("SELECT * FROM altered WHERE id = ?")
    before = app.rows(select, (1,))
    app.session.execute("ALTER TABLE altered ADD w text")
    after = [app.rows(select, (1,)) for _ in range(2 * app.nodes)]
    return [before, after]


def schema_events(app):
    with app.configure() as other:
        session = other.connect()
        session.execute(f"CREATE TABLE {app.keyspace}.told (id int PRIMARY KEY)")
        tables = app.cluster.metadata.keyspaces[app.keyspace].tables
        eventually("the new table is told of", lambda: "told" in tables)
        session.execute(f"DROP TABLE {app.keyspace}.told")
        eventually("its end is told of", lambda: "told" not in tables)
    return "told"


def token_aware(app, keyspace=None):
    """Reads of keys that one node has: how many that node was asked for, as their traces say. The keyspace has one replica of each."""
    table = f"{keyspace or app.keyspace}.keyed"
    insert = app.session.prepare(f"INSERT INTO {table} (k, n) VALUES (?, ?)")
    select = app.session.prepare(f"SELECT k FROM {table} WHERE k = ? AND n = ?")
    keys = [(f"key {number}", number) for number in range(30)]
    execute_concurrent_with_args(app.session, insert, keys)
    traced = [app.session.execute(select, key, trace=True).response_future.get_query_trace_ids()[0] for key in keys]
    of_replicas = 0
    for trace in traced:
        coordinator, reader = coordinator_and_reader(app, trace)
        of_replicas += coordinator == reader
    return f"{of_replicas} of {len(keys)}"


def coordinator_and_reader(app, trace):
    """The node that was asked for a read, and the one that has the data. Nodes write a trace's parts one by one, in no order, and some
    after the end: they are asked for until both are there."""
    found = []

    def are_known():
        began = app.rows("SELECT coordinator FROM system_traces.sessions WHERE session_id = %s", (trace,))
        events = app.rows("SELECT activity, source FROM system_traces.events WHERE session_id = %s", (trace,))
        coordinators = [str(address) for address, in began if address]
        readers = [str(source) for activity, source in events if activity.startswith("Executing single-partition query")]
        found[:] = coordinators[:1] + readers[:1]
        return coordinators and readers

    eventually("a trace", are_known)
    return found


def in_flight(app):
    """500 requests on one connection, none waiting for another's answer."""
    insert = app.session.prepare("INSERT INTO crowded (id, v) VALUES (?, ?)")
    select = app.session.prepare("SELECT v FROM crowded WHERE id = ?")
    with app.configure(keep_to_contact=True) as cluster:
        session = cluster.connect()
        for future in [session.execute_async(insert, (number, -number)) for number in range(500)]:
            future.result()
        found = [session.execute_async(select, (number,)) for number in range(500)]
        return sum(future.result().one().v for future in found)


def connections(app):
    """200 connections to all nodes together, each used."""
    count = 200 // app.nodes
    with app.configure() as cluster:
        with ThreadPoolExecutor(16) as pool:
            sessions = list(pool.map(lambda _: cluster.connect(), range(count)))
        found = [session.execute(f"SELECT name FROM {app.keyspace}.t WHERE id = 1").one().name for session in sessions]
    return [len(found), sorted(set(found))]


def outage(app):
    """A node stops answering, is killed, and comes back; the harness does it when all programs have said that they are ready."""
    # With more replicas a node that is one may still read from another.
    alone = f"{app.keyspace}_2"
    write = SimpleStatement("INSERT INTO held (id, v) VALUES (1, 1)", consistency_level=ConsistencyLevel.ALL)
    read = SimpleStatement("SELECT v FROM held WHERE id = 1", consistency_level=ConsistencyLevel.ALL)
    with app.configure(keep_to_contact=True) as cluster:
        session = cluster.connect(app.keyspace)
        session.execute(write)
        reached("ready")
        app.stage("paused")
        yield "timeout-read", failure(app, read, session)
        yield "timeout-write", failure(app, write, session)
        reached("paused")
        app.stage("killed")
        lost = lambda: [host for host in app.cluster.metadata.all_hosts() if not host.is_up]
        eventually("a node is down", lambda: len(lost()) == 1)
        yield "event-down", [str(host.endpoint) for host in lost()]
        eventually("the coordinator knows", lambda: failure(app, read, session)[0] == "Unavailable")
        yield "unavailable", failure(app, read, session)
        reached("killed")
        app.stage("restarted")
        eventually("the node is up", lambda: not lost())
        yield "event-up", len(app.cluster.metadata.all_hosts())
        eventually("reads of all replicas", lambda: reads(session, read))
        eventually("reads by their replicas", lambda: all_by_replicas(app, alone))
        yield "after-restart", token_aware(app, alone)
        reached("restarted")


def all_by_replicas(app, keyspace):
    """The node is up before there are connections to it, and before all others know."""
    try:
        return token_aware(app, keyspace) == "30 of 30"
    except Exception:
        return False


def reconnect(app):
    app.session.execute("INSERT INTO t (id, name) VALUES (1, 'kept')")
    reached("ready")
    app.stage("restarted")
    eventually("reads", lambda: reads(app.session, "SELECT name FROM t WHERE id = 1"))
    yield "reconnected", app.rows("SELECT name FROM t WHERE id = 1")
    reached("restarted")


def reads(session, statement):
    try:
        return bool(list(session.execute(statement)))
    except Exception:
        return False


CHECKS = {
    "connect": connect,
    "ddl": ddl,
    "simple": simple,
    "prepared": prepared,
    "named": named,
    "batch": batch,
    "paging": paging,
    "in": in_list,
    "lwt": lwt,
    "types": types,
    "vector": vector,
    "blob": blob,
    "null": null,
    "unset": unset,
    "tracing": tracing,
    "warnings": warnings,
    "error-syntax": error_syntax,
    "error-invalid": error_invalid,
    "error-configuration": error_configuration,
    "error-exists": error_exists,
    "error-unavailable": error_unavailable,
    "error-function": error_function,
    "error-read-failure": error_read_failure,
    "error-unauthorized": error_unauthorized,
    "password": password,
    "use": use,
    "keyspace-of-request": keyspace_of_request,
    "prepared-again": prepared_again,
    "schema-events": schema_events,
    "token-aware": token_aware,
    "in-flight": in_flight,
    "connections": connections,
    "outage": outage,
    "reconnect": reconnect,
}


def say(**line):
    print(json.dumps(line, default=repr), flush=True)


def reached(stage):
    say(reached=stage)


def run(name, check, app):
    try:
        found = check(app)
        if hasattr(found, "send"):
            for part, detail in found:
                say(check=part, outcome="passed", detail=detail)
        else:
            say(check=name, outcome="passed", detail=found)
    except Absent as reason:
        say(check=name, outcome="absent", detail=str(reason))
    except Exception as error:
        say(check=name, outcome="failed", detail=f"{type(error).__name__}: {error}")


def main():
    arguments = dict(argument.split("=", 1) for argument in sys.argv[1:])
    app = Application(arguments)
    wanted = arguments["checks"].split(",")
    for name, check in CHECKS.items():
        if name in wanted or wanted == ["session"] and name not in ("outage", "reconnect"):
            run(name, check, app)
    app.cluster.shutdown()


main()
