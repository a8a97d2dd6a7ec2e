"""An application on the Python driver: everything that a session of it does, and what it saw.

usage: driver.py HOST PORT VERSION|auto none|lz4|snappy KEYSPACE [AUTHORITY [CERTIFICATE KEY KEY_LOG TLS]]

With AUTHORITY, a file of certificates to believe, it speaks TLS. With CERTIFICATE and KEY it shows those; then names are
not compared. KEY_LOG gets the secrets of its connections, TLS is their version (TLSv1_2, TLSv1_3).

Prints JSON lines: first what each step saw, which depends on nothing but the arguments, so that two runs compare line by
line; then one line {"asked": ...} for each kind of request and table, with the number of requests and of the partitions that
they touch, counted where they are sent.
"""

import datetime
import decimal
import ipaddress
import json
import random
import ssl
import string
import sys
import uuid
from collections import defaultdict

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy
from cassandra.query import UNSET_VALUE, BatchStatement, BatchType, SimpleStatement

ROWS = 5000
PAGE = 100


class Application:
    """A session that keeps account of what it asks for."""

    def __init__(self, session, version, keyspace):
        self.session = session
        self.version = version
        self.keyspace = keyspace
        self.asked = defaultdict(lambda: [0, 0, 0])

    def count(self, kind, table, partitions, requests=1, repeated=0):
        """`repeated` requests were refused as not prepared: they are on the wire, and touch nothing."""
        account = self.asked[kind, table]
        account[0] += requests
        account[1] += partitions
        account[2] += repeated

    def scans(self, table, requests):
        """Reads that name no partition."""
        self.asked["scan", table] = [requests, None, 0]

    def ask(self, kind, table, partitions, statement, values=None, **options):
        """Sends one request that touches `partitions` partitions; the answer with its rows and warnings."""
        self.count(kind, table, partitions)
        return self.send(statement, values, **options)

    def send(self, statement, values=None, **options):
        future = self.session.execute_async(statement, values, **options)
        rows = list(future.result())
        return {"rows": [plain(row) for row in rows], "warnings": future.warnings or []}

    def define(self, *statements):
        for statement in statements:
            self.session.execute(statement)


def plain(value):
    """The value as JSON has it; sets sorted."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, dict) or hasattr(value, "items"):
        return [[plain(key), plain(item)] for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "__iter__") and not isinstance(value, (bytes, bytearray)):
        return sorted((plain(item) for item in value), key=str)
    return repr(value)


def saw(step, **fields):
    print(json.dumps({"step": step, **fields}), flush=True)


def simple_statements(app):
    app.define("CREATE TABLE plain (id int PRIMARY KEY, name text, note text)")
    for number in range(4):
        values = f"{number}, 'n{number}', 'it''s {number}'"
        app.ask("insert", "plain", 1, f"INSERT INTO plain (id, name, note) VALUES ({values})")
    saw("literal", **app.ask("select", "plain", 1, "SELECT id, name, note FROM plain WHERE id = 2"))
    saw("positional", **app.ask("select", "plain", 1, "SELECT name FROM plain WHERE id = %s", (3,)))
    saw("named", **app.ask("select", "plain", 1, "SELECT name FROM plain WHERE id = %(id)s", {"id": 1}))
    app.ask("update", "plain", 1, "UPDATE plain SET note = 'changed' WHERE id = 1")
    app.ask("delete", "plain", 1, "DELETE FROM plain WHERE id = 0")
    saw("missing", **app.ask("select", "plain", 1, "SELECT name FROM plain WHERE id = 0"))
    traced = app.session.execute("SELECT name FROM plain WHERE id = 1", trace=True)
    app.count("select", "plain", 1)
    saw("traced", rows=plain(list(traced)), request=traced.get_query_trace(max_wait_sec=60).request_type)
    if app.version >= 4:
        payload = {"unknown": b"\x00\x01"}
        saw("custom payload", **app.ask("select", "plain", 1, "SELECT name FROM plain WHERE id = 3", custom_payload=payload))


def prepared_statements(app):
    app.define("CREATE TABLE bound (id int PRIMARY KEY, name text, note text)")
    insert = app.session.prepare("INSERT INTO bound (id, name, note) VALUES (?, ?, ?)")
    named = app.session.prepare("UPDATE bound SET note = :note, name = :name WHERE id = :id")
    select = app.session.prepare("SELECT id, name, note FROM bound WHERE id = ?")
    for number in range(5):
        app.ask("insert", "bound", 1, insert, (number, f"n{number}", "first"))
    app.ask("update", "bound", 1, named, {"id": 1, "name": "by name", "note": "second"})
    app.ask("insert", "bound", 1, insert, (2, "null note", None))
    if app.version >= 4:
        app.ask("insert", "bound", 1, insert, (3, "unset note", UNSET_VALUE))
    for number in range(6):
        saw("bound", **app.ask("select", "bound", 1, select, (number,)))
    markers = [column.name for column in insert.column_metadata]
    saw("prepared", markers=markers, key=[plain(insert.routing_key_indexes), plain(select.routing_key_indexes)])


def paging(app):
    app.define("CREATE TABLE paged (part int, seq int, filler text, PRIMARY KEY (part, seq))")
    insert = app.session.prepare("INSERT INTO paged (part, seq, filler) VALUES (?, ?, ?)")
    for start in range(0, ROWS, 500):
        batch = BatchStatement(batch_type=BatchType.UNLOGGED)
        for seq in range(start, start + 500):
            batch.add(insert, (1, seq, f"filler {seq}"))
        app.ask("batch", "paged", 1, batch)
    select = app.session.prepare("SELECT seq, filler FROM paged WHERE part = ?")
    select.fetch_size = PAGE
    result = app.session.execute(select, (1,))
    pages = [result.current_rows]
    while result.has_more_pages:
        result.fetch_next_page()
        pages.append(result.current_rows)
    app.count("select", "paged", partitions=len(pages), requests=len(pages))
    rows = [row for page in pages for row in page]
    saw("paging", pages=len(pages), rows=len(rows), total=sum(row.seq for row in rows))


def in_lists(app):
    app.define(
        "CREATE TABLE listed (id int PRIMARY KEY, v int)",
        "CREATE TABLE pairs (a int, b int, v int, PRIMARY KEY ((a, b)))",
    )
    insert = app.session.prepare("INSERT INTO listed (id, v) VALUES (?, ?)")
    for number in range(8):
        app.ask("insert", "listed", 1, insert, (number, number * 10))
    bound = app.session.prepare("SELECT id, v FROM listed WHERE id IN ?")
    saw("IN ?", **app.ask("select", "listed", 3, bound, ([1, 2, 2, 3],)))
    saw("IN ? of one", **app.ask("select", "listed", 1, bound, ([5],)))
    saw("IN ? of none", **app.ask("select", "listed", 0, bound, ([],)))
    markers = app.session.prepare("SELECT id, v FROM listed WHERE id IN (?, ?, ?)")
    saw("IN (?, ?, ?)", **app.ask("select", "listed", 2, markers, (4, 6, 4)))
    saw("IN of literals", **app.ask("select", "listed", 2, "SELECT id, v FROM listed WHERE id IN (1, 2, 1)"))
    for a, b in ((1, 1), (1, 2), (2, 1)):
        app.ask("insert", "pairs", 1, f"INSERT INTO pairs (a, b, v) VALUES ({a}, {b}, {a * b})")
    saw("product", **app.ask("select", "pairs", 4, "SELECT a, b, v FROM pairs WHERE a IN (1, 2, 1) AND b IN (1, 2)"))
    product = app.session.prepare("SELECT v FROM pairs WHERE a IN ? AND b IN ?")
    saw("bound product", **app.ask("select", "pairs", 6, product, ([1, 2, 3, 3], [1, 2])))
    app.ask("delete", "pairs", 2, "DELETE FROM pairs WHERE a IN (1, 2) AND b = 1")


def batches(app):
    app.define(
        "CREATE TABLE by_name (name text PRIMARY KEY, id int)",
        "CREATE TABLE by_id (id int PRIMARY KEY, name text)",
        "CREATE TABLE by_text (id int PRIMARY KEY, name text)",
        "CREATE TABLE counts (id int PRIMARY KEY, n counter)",
    )
    by_name = app.session.prepare("INSERT INTO by_name (name, id) VALUES (?, ?)")
    logged = BatchStatement()
    logged.add(by_name, ("ann", 1))
    logged.add(SimpleStatement("INSERT INTO by_id (id, name) VALUES (1, 'ann')"))
    logged.add(SimpleStatement("UPDATE by_id SET name = %s WHERE id = %s"), ("ann again", 1))
    app.ask("batch", "by_name", 2, logged)
    unlogged = BatchStatement(batch_type=BatchType.UNLOGGED)
    for number in range(12):
        unlogged.add(by_name, (f"user {number}", number))
    saw("unlogged batch", **app.ask("batch", "by_name", 12, unlogged))
    counter = BatchStatement(batch_type=BatchType.COUNTER)
    add = app.session.prepare("UPDATE counts SET n = n + ? WHERE id = ?")
    for number in (1, 2, 1):
        counter.add(add, (5, number))
    app.ask("batch", "counts", 2, counter)
    app.ask("update", "counts", 1, "UPDATE counts SET n = n - 1 WHERE id = 2")
    insert_and_delete = "INSERT INTO by_text (id, name) VALUES (7, 'ann'); DELETE FROM by_text WHERE id = 8"
    app.ask("batch", "by_text", 2, f"BEGIN UNLOGGED BATCH {insert_and_delete}; APPLY BATCH")
    saw("counter", **app.ask("select", "counts", 2, "SELECT id, n FROM counts WHERE id IN (1, 2)"))
    saw("batched", **app.ask("select", "by_id", 1, "SELECT id, name FROM by_id WHERE id = 1"))


def conditions(app):
    app.define("CREATE TABLE conditional (id int PRIMARY KEY, v int)")
    insert = app.session.prepare("INSERT INTO conditional (id, v) VALUES (?, ?) IF NOT EXISTS")
    saw("applied", **app.ask("insert", "conditional", 1, insert, (1, 10)))
    saw("not applied", **app.ask("insert", "conditional", 1, insert, (1, 20)))
    saw("compared", **app.ask("update", "conditional", 1, "UPDATE conditional SET v = 11 WHERE id = 1 IF v = 10"))
    serial = SimpleStatement("SELECT v FROM conditional WHERE id = 1", consistency_level=ConsistencyLevel.SERIAL)
    saw("serial", **app.ask("select", "conditional", 1, serial))


def types(app):
    columns = {
        "id": ("int", 1),
        "c_ascii": ("ascii", "plain"),
        "c_bigint": ("bigint", -(2**63)),
        "c_blob": ("blob", b"\x00\xff"),
        "c_boolean": ("boolean", True),
        "c_date": ("date", datetime.date(1969, 7, 20)),
        "c_decimal": ("decimal", decimal.Decimal("-1.00")),
        "c_double": ("double", 0.1),
        "c_float": ("float", 0.5),
        "c_inet": ("inet", ipaddress.ip_address("::1")),
        "c_smallint": ("smallint", -2),
        "c_time": ("time", datetime.time(1, 2, 3)),
        "c_timestamp": ("timestamp", datetime.datetime(2024, 2, 29, 12, 0)),
        "c_timeuuid": ("timeuuid", uuid.UUID("50554d6e-29bb-11e5-b345-feff819cdc9f")),
        "c_tinyint": ("tinyint", -1),
        "c_uuid": ("uuid", uuid.UUID(int=7)),
        "c_varint": ("varint", 2**70),
        "c_list": ("list<text>", ["b", "a", "b"]),
        "c_set": ("set<int>", {3, 1, 2}),
        "c_map": ("map<text, bigint>", {"one": 1, "two": 2}),
        "c_nested": ("map<int, frozen<list<frozen<set<text>>>>>", {1: [{"x"}, {"y", "z"}]}),
        "c_tuple": ("tuple<int, text, boolean>", (1, "two", None)),
        "c_udt": ("frozen<place>", None),
        "c_vector": ("vector<float, 3>", [1.0, 2.0, 3.0]),
    }
    app.define("CREATE TYPE place (street text, number int, tags frozen<set<text>>)")
    defined = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    app.define(f"CREATE TABLE kinds ({defined}, PRIMARY KEY (id))")
    insert = app.session.prepare(f"INSERT INTO kinds ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})")
    app.ask("insert", "kinds", 1, insert, [value for _, value in columns.values()])
    place = "{street: 'Main', number: 1, tags: {'b', 'a'}}"
    app.ask("update", "kinds", 1, f"UPDATE kinds SET c_udt = {place}, c_list = c_list + ['c'] WHERE id = 1")
    saw("types", **app.ask("select", "kinds", 1, f"SELECT {', '.join(columns)} FROM kinds WHERE id = 1"))
    saw("json", **app.ask("select", "kinds", 1, "SELECT JSON id, c_map, c_tuple, c_udt FROM kinds WHERE id = 1"))


def scans(app):
    app.define(
        "CREATE TABLE scanned (id int PRIMARY KEY, name text, tag text)",
        "CREATE INDEX ON scanned (tag)",
    )
    insert = app.session.prepare("INSERT INTO scanned (id, name, tag) VALUES (?, ?, ?)")
    for number in range(20):
        app.ask("insert", "scanned", 1, insert, (number, f"n{number % 5}", f"t{number % 4}"))
    # How many partitions these read is not for the client to know.
    saw("filtering", **app.send("SELECT id FROM scanned WHERE name = 'n3' ALLOW FILTERING"))
    saw("scan", **app.send("SELECT id, name FROM scanned"))
    saw("index", **app.send("SELECT id FROM scanned WHERE tag = 't1'"))
    saw("range", **app.send("SELECT id FROM scanned WHERE token(id) > 0"))
    saw("aggregate", **app.send("SELECT count(*) FROM scanned"))
    app.scans("scanned", requests=5)


def other_keyspaces(app):
    """`USE` on the connection, and the keyspace of single requests in version 5."""
    other = f"{app.keyspace}_2"
    app.define(f"CREATE TABLE {other}.moved (id int PRIMARY KEY, v int)")
    app.session.execute(f"USE {other}")
    app.ask("insert", "moved", 1, "INSERT INTO moved (id, v) VALUES (1, 1)")
    select = app.session.prepare("SELECT v FROM moved WHERE id = ?")
    saw("USE", **app.ask("select", "moved", 1, select, (1,)))
    app.session.execute(f"USE {app.keyspace}")
    saw("prepared before USE", **app.ask("select", "moved", 1, select, (1,)))
    saw("qualified", **app.ask("select", "moved", 1, f"SELECT v FROM {other}.moved WHERE id = 1"))
    if app.version >= 5:
        statement = SimpleStatement("SELECT v FROM moved WHERE id = 1", keyspace=other)
        saw("keyspace of the request", **app.ask("select", "moved", 1, statement))
        prepared = app.session.prepare("SELECT id, v FROM moved WHERE id = ?", keyspace=other)
        saw("keyspace of the PREPARE", **app.ask("select", "moved", 1, prepared, (1,)))


def prepared_again(app):
    """The server forgets prepared statements of an altered table; the driver is told so and prepares them again."""
    app.define("CREATE TABLE altered (id int PRIMARY KEY, v int)")
    insert = app.session.prepare("INSERT INTO altered (id, v) VALUES (?, ?)")
    select = app.session.prepare("SELECT * FROM altered WHERE id = ?")
    app.ask("insert", "altered", 1, insert, (1, 1))
    saw("before ALTER", **app.ask("select", "altered", 1, select, (1,)))
    app.define("ALTER TABLE altered ADD w text")
    saw("after ALTER", **app.ask("select", "altered", 1, select, (1,)))
    app.count("select", "altered", 0, requests=0, repeated=1)
    saw("after ALTER, again", **app.ask("select", "altered", 1, select, (1,)))


def tombstones(app):
    """The node is told to warn from 10 tombstones on."""
    app.define("CREATE TABLE graves (id int, seq int, PRIMARY KEY (id, seq))")
    delete = app.session.prepare("DELETE FROM graves WHERE id = ? AND seq = ?")
    for seq in range(25):
        app.ask("delete", "graves", 1, delete, (1, seq))
    saw("tombstones", **app.ask("select", "graves", 1, "SELECT * FROM graves WHERE id = 1"))


def large_values(app):
    """More than a segment of version 5 holds (128 KiB); one that compresses to nearly nothing, one that hardly does."""
    app.define("CREATE TABLE large (id int PRIMARY KEY, v text)")
    insert = app.session.prepare("INSERT INTO large (id, v) VALUES (?, ?)")
    select = app.session.prepare("SELECT v FROM large WHERE id = ?")
    letters = random.Random(7).choices(string.printable, k=300_000)
    for number, value in enumerate(("x" * 300_000, "".join(letters))):
        app.ask("insert", "large", 1, insert, (number, value))
        [[returned]] = app.ask("select", "large", 1, select, (number,))["rows"]
        saw("large", equal=returned == value)


def concurrent_requests(app):
    """Many requests in flight on one connection, answered in any order."""
    app.define("CREATE TABLE crowded (id int PRIMARY KEY, v int)")
    insert = app.session.prepare("INSERT INTO crowded (id, v) VALUES (?, ?)")
    select = app.session.prepare("SELECT v FROM crowded WHERE id = ?")
    execute_concurrent_with_args(app.session, insert, [(number, -number) for number in range(500)], concurrency=64)
    results = execute_concurrent_with_args(app.session, select, [(number,) for number in range(500)], concurrency=64)
    app.count("insert", "crowded", requests=500, partitions=500)
    app.count("select", "crowded", requests=500, partitions=500)
    saw("concurrent", values=[result.one().v for _, result in results])


def errors(app):
    app.define("CREATE TABLE faulty (id int PRIMARY KEY, v int)")
    all_of_three = SimpleStatement("SELECT v FROM faulty WHERE id = 1", consistency_level=ConsistencyLevel.THREE)
    for wrong in (
        "SELEC v FROM faulty",
        "SELECT v FROM no_such_table",
        "SELECT v FROM faulty WHERE v = 1",
        "INSERT INTO faulty (v) VALUES (1)",
        "CREATE TABLE faulty (id int PRIMARY KEY)",
        "USE no_such_keyspace",
        all_of_three,
    ):
        try:
            app.send(wrong)
            saw("error", missing=str(wrong))
        except Exception as error:
            saw("error", kind=type(error).__name__, text=str(error).splitlines()[0])


STEPS = (
    simple_statements,
    prepared_statements,
    paging,
    in_lists,
    batches,
    conditions,
    types,
    scans,
    other_keyspaces,
    prepared_again,
    tombstones,
    large_values,
    concurrent_requests,
    errors,
)


def encrypted(authority, shown=()):
    # Host names are checked.
    context = ssl.create_default_context(cafile=authority)
    if shown:
        certificate, key, key_log, version = shown
        context.check_hostname = False
        context.load_cert_chain(certificate, key)
        context.keylog_filename = key_log
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    return context


def main(host, port, version, compression, keyspace, authority=None, *shown):
    patient = ExecutionProfile(
        load_balancing_policy=RoundRobinPolicy(), retry_policy=FallthroughRetryPolicy(), request_timeout=60
    )
    options = {} if version == "auto" else {"protocol_version": int(version)}
    if authority:
        options["ssl_context"] = encrypted(authority, shown)
    cluster = Cluster(
        [host],
        port=int(port),
        compression=False if compression == "none" else compression,
        execution_profiles={EXEC_PROFILE_DEFAULT: patient},
        connect_timeout=60,
        control_connection_timeout=60,
        idle_heartbeat_interval=0,
        **options,
    )
    session = cluster.connect()
    app = Application(session, cluster.protocol_version, keyspace)
    for name in (keyspace, f"{keyspace}_2"):
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        app.define(f"DROP KEYSPACE IF EXISTS {name}", f"CREATE KEYSPACE {name} WITH replication = {replication}")
    session.set_keyspace(keyspace)
    saw("connected", version=cluster.protocol_version, cluster=cluster.metadata.cluster_name)
    for step in STEPS:
        step(app)
    cluster.shutdown()
    for (kind, table), account in sorted(app.asked.items()):
        asked = dict(zip(("requests", "partitions", "repeated"), account))
        print(json.dumps({"asked": {"kind": kind, "table": table, **asked}}))


if __name__ == "__main__":
    main(*sys.argv[1:])
