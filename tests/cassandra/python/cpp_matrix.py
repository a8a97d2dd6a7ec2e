"""What an application on the C++ driver relies on: the checks of ../drivers, one line of JSON each.

The driver is the one that the package `acsylla` is linked with and that Python calls here, as it is.

usage: cpp_matrix.py NAME=VALUE..., see ../drivers/README.md
"""

import asyncio
import decimal
import json
import struct
import sys
import time
from collections import Counter
from inspect import isasyncgen
from uuid import UUID

import acsylla

PATIENCE = 90
MEBIBYTE = bytes(range(256)) * 4096
WARNING = "Server-side warning: "


class Absent(Exception):
    """The driver does not have it, or not in this version of the protocol."""


class Application:
    def __init__(self, arguments):
        self.arguments = arguments
        self.keyspace = arguments["keyspace"]
        self.nodes = int(arguments["nodes"])
        self.version = int(arguments["version"])
        # The nodes that the driver knows, and whether they are up.
        self.hosts = {}
        self.warnings = []
        self.session = None

    def told_of_host(self, event, host):
        if event == acsylla.HostListenerEvent.REMOVE:
            self.hosts.pop(host, None)
        else:
            self.hosts[host] = event == acsylla.HostListenerEvent.UP

    def logged(self, message):
        """All that the driver does with a server's warning is to log it."""
        if WARNING in message.message:
            self.warnings.append(message.message.split(WARNING, 1)[1])
        # So every connection to a Cassandra.
        elif "sharding info" not in message.message:
            print(message.message, file=sys.stderr)

    def configure(self, keep_to_contact=False, listens=False, **changes):
        """A cluster of its own; with `keep_to_contact`, requests go to the contact point only."""
        arguments = {**self.arguments, **changes}
        options = {}
        if "user" in arguments:
            options.update(username=arguments["user"], password=arguments["password"])
        if "ca" in arguments:
            options.update(
                ssl_enabled=True,
                ssl_trusted_cert=open(arguments["ca"]).read(),
                ssl_verify_flags=acsylla.SSLVerifyFlags.PEER_IDENTITY,
            )
        if "cert" in arguments:
            options.update(ssl_cert=open(arguments["cert"]).read(), ssl_private_key=open(arguments["key"]).read())
        if keep_to_contact:
            options.update(whitelist_hosts=arguments["host"])
        if listens:
            options.update(host_listener_callback=self.told_of_host)
        return acsylla.create_cluster(
            [arguments["host"]],
            port=int(arguments["port"]),
            protocol_version=self.version,
            load_balance_dc_aware=arguments["dc"],
            consistency=acsylla.Consistency.ONE,
            retry_policy="fallthrough",
            core_connections_per_host=int(arguments.get("connections", 1)),
            request_timeout=60,
            connect_timeout=60,
            max_schema_wait_time_ms=60_000,
            constant_reconnect_delay_ms=500,
            # The process has one, and the last one who sets it is heard.
            logging_callback=self.logged,
            **options,
        )

    async def execute(self, text, values=(), session=None, **settings):
        statement = acsylla.create_statement(text, parameters=len(values), **settings)
        if values:
            statement.bind_list(list(values))
        return await (session or self.session).execute(statement)

    async def rows(self, text, values=(), session=None, **settings):
        return as_lists(await self.execute(text, values, session, **settings))

    async def prepare(self, text, session=None):
        """What executes the statement with a list of values."""
        session = session or self.session
        prepared = await session.create_prepared(text)

        async def execute(*values, **settings):
            statement = prepared.bind(**settings)
            statement.bind_list(list(values))
            return await session.execute(statement)

        return execute

    async def stage(self, name):
        """Waits until the harness has come to this stage of an outage."""
        deadline = time.monotonic() + 3 * PATIENCE
        while name not in open(self.arguments["stage"]).read().split():
            assert time.monotonic() < deadline, f"stage {name} does not come"
            await asyncio.sleep(0.05)


def as_lists(result):
    return [row.as_list() for row in result]


async def eventually(what, condition):
    deadline = time.monotonic() + PATIENCE
    while True:
        found = condition()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        await asyncio.sleep(0.05)


async def connect(app):
    app.session = await app.configure(listens=True).create_session()
    await eventually("all nodes are up", lambda: list(app.hosts.values()) == [True] * app.nodes)
    [[name]] = await app.rows("SELECT cluster_name FROM system.local")
    return [name, sorted(app.hosts)]


async def ddl(app):
    replication = f"{{'class': 'SimpleStrategy', 'replication_factor': {app.arguments['replication']}}}"
    own = f"{app.keyspace}_own"
    for statement in (
        f"DROP KEYSPACE IF EXISTS {own}",
        f"CREATE KEYSPACE {own} WITH replication = {replication}",
        f"CREATE TABLE {app.keyspace}.t (id int PRIMARY KEY, name text, note text)",
    ):
        await app.execute(statement)
    await app.session.use_keyspace(app.keyspace)
    tables = lambda: app.session.get_metadata().get_tables(app.keyspace)
    await eventually("the new table is known", lambda: "t" in tables())
    await eventually("the new keyspace is known", lambda: own in app.session.get_metadata().get_keyspaces())
    columns = app.session.get_metadata().get_table_meta(app.keyspace, "t").columns

    # Not by a look at one moment: others change their schemas at any.
    async def is_agreed():
        versions = await app.rows("SELECT schema_version FROM system.local") + await app.rows("SELECT schema_version FROM system.peers")
        return len({str(version) for version, in versions}) == 1

    await eventually("all nodes have one schema", is_agreed)
    return sorted(column.name for column in columns)


async def simple(app):
    await app.execute("INSERT INTO t (id, name, note) VALUES (1, 'it''s', 'me')")
    return await app.rows("SELECT id, name, note FROM t WHERE id = 1")


async def prepared(app):
    insert = await app.prepare("INSERT INTO t (id, name, note) VALUES (?, ?, ?)")
    for number in range(10):
        await insert(number, f"n{number}", "x" * number)
    select = await app.prepare("SELECT id, name, note FROM t WHERE id = ?")
    return [as_lists(await select(number)) for number in range(10)]


async def named(app):
    in_text = acsylla.create_statement("SELECT note FROM t WHERE id = 3 AND name = :name ALLOW FILTERING", parameters=1)
    in_text.bind_by_name("name", "n3")
    prepared = await app.session.create_prepared("SELECT name FROM t WHERE id = :key")
    by_name = prepared.bind()
    by_name.bind_by_name("key", 4)
    return [as_lists(await app.session.execute(statement)) for statement in (in_text, by_name)]


async def batch(app):
    insert = await app.session.create_prepared("INSERT INTO t (id, name) VALUES (?, ?)")
    for number, batch in enumerate((acsylla.create_batch_logged(), acsylla.create_batch_unlogged())):
        bound = insert.bind()
        bound.bind_list([20, f"batch {number}"])
        batch.add_statement(bound)
        batch.add_statement(acsylla.create_statement(f"INSERT INTO t (id, name) VALUES ({21 + number}, 'simple')"))
        await app.session.execute_batch(batch)
    counter = acsylla.create_batch_counter()
    add = await app.session.create_prepared("UPDATE counts SET n = n + ? WHERE id = ?")
    for number in (1, 2, 1):
        bound = add.bind()
        bound.bind_list([5, number])
        counter.add_statement(bound)
    await app.session.execute_batch(counter)
    found = await app.rows("SELECT id, name FROM t WHERE id IN (20, 21, 22)")
    return [sorted(found), sorted(await app.rows("SELECT id, n FROM counts"))]


async def all_of(count, at_once, execute):
    """Executes for each number below `count`, so many at once."""
    for first in range(0, count, at_once):
        await asyncio.gather(*(execute(number) for number in range(first, min(first + at_once, count))))


async def paging(app):
    await all_of(1050, 50, await app.prepare("INSERT INTO paged (part, seq) VALUES (1, ?)"))
    prepared = await app.session.create_prepared("SELECT seq FROM paged WHERE part = 1")
    statement = prepared.bind(page_size=100)
    pages, total = [], 0
    while True:
        result = await app.session.execute(statement)
        numbers = [number for number, in as_lists(result)]
        pages.append(len(numbers))
        total += sum(numbers)
        if not result.has_more_pages():
            return [pages, total]
        statement.set_page_state(result.page_state())


async def in_list(app):
    select = await app.prepare("SELECT id, name FROM t WHERE id IN ?")
    found = [sorted(as_lists(await select([1, 2, 2, 3])))]
    return found + [sorted(await app.rows("SELECT id FROM t WHERE id IN (4, 5)"))]


async def lwt(app):
    insert = await app.prepare("INSERT INTO t (id, name) VALUES (?, ?) IF NOT EXISTS")
    found = [as_lists(await insert(100, name)) for name in ("first", "second")]
    found.append(await app.rows("UPDATE t SET name = 'third' WHERE id = 100 IF name = 'first'"))
    serial = acsylla.Consistency.SERIAL
    return found + [await app.rows("SELECT name FROM t WHERE id = 100", consistency=serial)]


async def types(app):
    insert = await app.prepare("INSERT INTO kinds (id, l, s, m, n, t, u, d, v, i) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
    place = {"street": "Main", "number": 1}
    collections = (["b", "a"], {3, 1}, {"one": 1}, {1: [2, 3]}, (1, "two"), place)
    # A varint is what the driver takes and gives as bytes.
    await insert(1, *collections, decimal.Decimal("-1.50"), (2**70).to_bytes(9, "big"), "::1")
    [found] = await app.rows("SELECT id, l, s, m, n, t, u, d, v, i FROM kinds WHERE id = 1")
    return [str(value) for value in found]


async def vector(app):
    """A type of the server's that the driver does not know: bytes."""
    insert = await app.prepare("INSERT INTO vectors (id, v) VALUES (1, ?)")
    await insert(struct.pack(">3f", 1.0, 2.5, -3.0))
    [[found]] = await app.rows("SELECT v FROM vectors WHERE id = 1")
    return struct.unpack(">3f", found)


async def blob(app):
    await (await app.prepare("INSERT INTO blobs (id, b) VALUES (1, ?)"))(MEBIBYTE)
    [[returned]] = await app.rows("SELECT b FROM blobs WHERE id = 1")
    assert returned == MEBIBYTE
    return len(returned)


async def null(app):
    insert = await app.prepare("INSERT INTO t (id, name, note) VALUES (?, ?, ?)")
    await insert(30, "kept", "gone")
    await insert(30, "kept", None)
    return await app.rows("SELECT name, note FROM t WHERE id = 30")


async def unset(app):
    if app.version < 4:
        raise Absent("version 3 has no unset values")
    insert = await app.prepare("INSERT INTO t (id, name, note) VALUES (?, ?, ?)")
    await insert(31, "first", "kept")
    await insert(31, "second")
    return await app.rows("SELECT name, note FROM t WHERE id = 31")


async def tracing(app):
    statement = acsylla.create_statement("SELECT name FROM t WHERE id = 1")
    statement.set_tracing(True)
    trace = UUID((await app.session.execute(statement)).tracing_id)
    sessions = "SELECT command, parameters FROM system_traces.sessions WHERE session_id = ?"
    found = []

    # The node writes its events on their own, also after the end.
    async def is_written():
        found[:] = await app.rows(sessions, (trace,))
        events = await app.rows("SELECT activity FROM system_traces.events WHERE session_id = ?", (trace,))
        return found and found[0][1] and len(events) > 2

    await eventually("a trace", is_written)
    [[command, parameters]] = found
    return [command, dict(parameters)["query"]]


async def warnings(app):
    if app.version < 4:
        raise Absent("version 3 has no warnings")
    app.warnings.clear()
    insert = f"INSERT INTO t (id, note) VALUES (%s, '{'x' * 4000}');"
    await app.execute("BEGIN UNLOGGED BATCH " + "".join(insert % number for number in (40, 41)) + " APPLY BATCH")
    await eventually("a warning", lambda: app.warnings)
    return app.warnings


async def failure(execution):
    try:
        await execution
    except Exception as error:
        return [type(error).__name__, str(error)]
    raise AssertionError("it did not fail")


async def error_syntax(app):
    return await failure(app.execute("SELEC name FROM t"))


async def error_invalid(app):
    statements = ("SELECT name FROM no_such_table", "SELECT id FROM t WHERE name = 'x'")
    return [await failure(app.execute(statement)) for statement in statements]


async def error_configuration(app):
    return await failure(app.execute("CREATE KEYSPACE wrong WITH replication = {'class': 'NoSuchStrategy'}"))


async def error_exists(app):
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    statements = ("CREATE TABLE t (id int PRIMARY KEY)", f"CREATE KEYSPACE {app.keyspace} WITH replication = {replication}")
    return [await failure(app.execute(statement)) for statement in statements]


async def error_unavailable(app):
    three = acsylla.Consistency.THREE
    return await failure(app.execute("SELECT name FROM t WHERE id = 1", consistency=three))


async def error_function(app):
    return await failure(app.execute("SELECT broken(id) FROM t WHERE id = 1"))


async def error_read_failure(app):
    """More tombstones than the node puts up with."""
    await all_of(110, 110, await app.prepare("DELETE FROM graves WHERE id = 1 AND seq = ?"))
    return (await failure(app.execute("SELECT seq FROM graves WHERE id = 1")))[0]


async def error_unauthorized(app):
    if "user" not in app.arguments:
        raise Absent("the cluster asks for no password")
    role = f"{app.keyspace}_limited"
    await app.execute(f"CREATE ROLE IF NOT EXISTS {role} WITH PASSWORD = 'limited' AND LOGIN = true")
    session = await app.configure(user=role, password="limited").create_session()
    found = await failure(app.execute(f"SELECT name FROM {app.keyspace}.t WHERE id = 1", session=session))
    await session.close()
    return found


async def password(app):
    if "user" not in app.arguments:
        raise Absent("the cluster asks for no password")
    return await failure(app.configure(password="wrong").create_session())


async def use(app):
    other = f"{app.keyspace}_2"
    await app.session.use_keyspace(other)
    await app.execute("INSERT INTO moved (id, v) VALUES (1, 7)")
    found = await app.rows("SELECT v FROM moved WHERE id = 1")
    await app.session.use_keyspace(app.keyspace)
    return [found, await app.rows("SELECT name FROM t WHERE id = 1")]


async def keyspace_of_request(_app):
    raise Absent("before version 5 requests have no keyspace")


async def prepared_again(app):
    await app.execute("INSERT INTO altered (id, v) VALUES (1, 1)")
    select = await app.prepare("SELECT * FROM altered WHERE id = ?")
    before = as_lists(await select(1))
    await app.execute("ALTER TABLE altered ADD w text")
    after = []

    # The first answers are read as the ones before it.
    async def have_the_new_column():
        after[:] = as_lists(await select(1))
        return len(after[0]) == 3

    await eventually("the new column", have_the_new_column)
    return [before, after]


async def schema_events(app):
    session = await app.configure().create_session()
    tables = lambda: app.session.get_metadata().get_tables(app.keyspace)
    await app.execute(f"CREATE TABLE {app.keyspace}.told (id int PRIMARY KEY)", session=session)
    await eventually("the new table is told of", lambda: "told" in tables())
    await app.execute(f"DROP TABLE {app.keyspace}.told", session=session)
    await eventually("its end is told of", lambda: "told" not in tables())
    await session.close()
    return "told"


async def token_aware(app, keyspace=None):
    """Reads of keys that one node has: how many that node was asked for, as their traces say. The keyspace has one replica of each."""
    table = f"{keyspace or app.keyspace}.keyed"
    insert = await app.prepare(f"INSERT INTO {table} (k, n) VALUES (?, ?)")
    select = await app.session.create_prepared(f"SELECT k FROM {table} WHERE k = ? AND n = ?")
    keys = [[f"key {number}", number] for number in range(30)]
    await asyncio.gather(*(insert(*key) for key in keys))
    of_replicas = 0
    for key in keys:
        statement = select.bind()
        statement.bind_list(key)
        statement.set_tracing(True)
        trace = UUID((await app.session.execute(statement)).tracing_id)
        coordinator, reader = await coordinator_and_reader(app, trace)
        of_replicas += coordinator == reader
    return f"{of_replicas} of {len(keys)}"


async def coordinator_and_reader(app, trace):
    """The node that was asked for a read, and the one that has the data. Nodes write a trace's parts one by one, in no order, and some
    after the end: they are asked for until both are there."""
    found = []

    async def are_known():
        began = await app.rows("SELECT coordinator FROM system_traces.sessions WHERE session_id = ?", (trace,))
        events = await app.rows("SELECT activity, source FROM system_traces.events WHERE session_id = ?", (trace,))
        coordinators = [str(address) for address, in began if address]
        readers = [str(source) for activity, source in events if activity.startswith("Executing single-partition query")]
        found[:] = coordinators[:1] + readers[:1]
        return coordinators and readers

    await eventually("a trace", are_known)
    return found


async def in_flight(app):
    """500 requests on one connection, none waiting for another's answer."""
    session = await app.configure(keep_to_contact=True).create_session(app.keyspace)
    insert = await app.prepare("INSERT INTO crowded (id, v) VALUES (?, ?)", session)
    select = await app.prepare("SELECT v FROM crowded WHERE id = ?", session)
    await asyncio.gather(*(insert(number, -number) for number in range(500)))
    found = await asyncio.gather(*(select(number) for number in range(500)))
    await session.close()
    return sum(row.as_list()[0] for result in found for row in result)


async def connections(app):
    """200 connections to all nodes together, and as many requests at once, which go to the least busy."""
    count = 200 // app.nodes
    session = await app.configure(connections=count).create_session()
    await eventually("all connections are open", lambda: session.metrics().stats_total_connections >= count * app.nodes)
    select = f"SELECT name FROM {app.keyspace}.t WHERE id = 1"
    found = await asyncio.gather(*(app.rows(select, session=session) for _ in range(count * app.nodes)))
    await session.close()
    return [len(found), sorted(Counter(name for [[name]] in found))]


async def outage(app):
    """A node stops answering, is killed, and comes back; the harness does it when all programs have said that they are ready."""
    # The driver takes replicas in any order, and a node that is one may still read from another: a keyspace where each key has one.
    alone = f"{app.keyspace}_2"
    every = {"consistency": acsylla.Consistency.ALL}
    session = await app.configure(keep_to_contact=True).create_session(app.keyspace)
    write = lambda: app.execute("INSERT INTO held (id, v) VALUES (1, 1)", session=session, **every)
    read = lambda: app.execute("SELECT v FROM held WHERE id = 1", session=session, **every)
    await write()
    reached("ready")
    await app.stage("paused")
    yield "timeout-read", await failure(read())
    yield "timeout-write", await failure(write())
    reached("paused")
    await app.stage("killed")
    lost = lambda: [host for host, is_up in app.hosts.items() if not is_up]
    await eventually("a node is down", lambda: len(lost()) == 1)
    yield "event-down", lost()

    async def is_known():
        return (await failure(read()))[0] == "CassErrorServerUnavailable"

    await eventually("the coordinator knows", is_known)
    yield "unavailable", await failure(read())
    reached("killed")
    await app.stage("restarted")
    await eventually("the node is up", lambda: not lost())
    yield "event-up", len(app.hosts)
    await eventually("reads of all replicas", lambda: succeeds(read()))
    await eventually("reads by their replicas", lambda: all_by_replicas(app, alone))
    yield "after-restart", await token_aware(app, alone)
    reached("restarted")
    await session.close()


async def all_by_replicas(app, keyspace):
    """The node is up before there are connections to it, and before all others know."""
    try:
        return await token_aware(app, keyspace) == "30 of 30"
    except Exception:
        return False


async def reconnect(app):
    await app.execute("INSERT INTO t (id, name) VALUES (1, 'kept')")
    reached("ready")
    await app.stage("restarted")
    select = "SELECT name FROM t WHERE id = 1"
    await eventually("reads", lambda: succeeds(app.execute(select)))
    yield "reconnected", await app.rows(select)
    reached("restarted")


async def succeeds(execution):
    try:
        return len(await execution) > 0
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


async def run(name, check, app):
    try:
        found = check(app)
        if isasyncgen(found):
            async for part, detail in found:
                say(check=part, outcome="passed", detail=detail)
        else:
            say(check=name, outcome="passed", detail=await found)
    except Absent as reason:
        say(check=name, outcome="absent", detail=str(reason))
    except Exception as error:
        say(check=name, outcome="failed", detail=f"{type(error).__name__}: {error}")


async def main():
    arguments = dict(argument.split("=", 1) for argument in sys.argv[1:])
    app = Application(arguments)
    wanted = arguments["checks"].split(",")
    for name, check in CHECKS.items():
        if name in wanted or wanted == ["session"] and name not in ("outage", "reconnect"):
            await run(name, check, app)
    if app.session:
        await app.session.close()


asyncio.run(main())
