"""The session of the Python driver that is recorded: what its API can make it say.

usage: session.py HOST PORT VERSION|auto none|lz4|snappy FOLDER [schema|USER:PASSWORD]

Each line of FOLDER/tables.cql is sent as it is, refused ones too; without compression those of FOLDER/more.cql follow. With
`schema` the driver reads the schema as it does by default. A session of this kind, or one that logs in or negotiates its
version, does nothing beyond its first query.
"""

import sys

from cassandra import ConsistencyLevel
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy
from cassandra.query import UNSET_VALUE, BatchStatement, BatchType, SimpleStatement


def refusable(ask, *arguments, **options):
    try:
        return list(ask(*arguments, **options))
    except Exception as refused:
        print(type(refused).__name__, str(refused)[:100])
        return []


def connect(host, port, version, compression, special):
    options = {}
    if version != "auto":
        options["protocol_version"] = int(version)
    if ":" in special:
        options["auth_provider"] = PlainTextAuthProvider(*special.split(":"))
    profile = ExecutionProfile(
        load_balancing_policy=RoundRobinPolicy(), retry_policy=FallthroughRetryPolicy(), request_timeout=60
    )
    cluster = Cluster(
        [host],
        port=int(port),
        compression=False if compression == "none" else compression,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        schema_metadata_enabled=special == "schema",
        token_metadata_enabled=special == "schema",
        connect_timeout=60,
        control_connection_timeout=60,
        **options,
    )
    return cluster, cluster.connect()


def everything(session, version, compression, folder):
    tables = lines(folder, "tables.cql")
    for statement in tables[:2]:
        refusable(session.execute, statement)
    session.set_keyspace("golden")
    for statement in tables[2:]:
        refusable(session.execute, statement)
    bound(session, version)
    if compression == "lz4":
        # Longer than a segment of version 5.
        session.execute("INSERT INTO queue (k, t, v) VALUES ('long', 9, %s)", ("long " * 30_000,))
        list(session.execute("SELECT v FROM queue WHERE k = 'long'"))
    if compression == "none":
        for statement in lines(folder, "more.cql"):
            refusable(session.execute, statement)
        batches(session)
        options(session, version)
    session.execute("DROP KEYSPACE golden")


def lines(folder, name):
    with open(f"{folder}/{name}", encoding="utf-8") as file:
        return file.read().splitlines()


def bound(session, version):
    insert = session.prepare("INSERT INTO bound (a, b, c, v, s) VALUES (?, ?, ?, ?, ?)")
    for c in range(12):
        session.execute(insert, (2, "paged", c, "v" * c, None if c % 2 else c))
    if version >= 4:
        session.execute(insert, (2, "unset", 1, UNSET_VALUE, UNSET_VALUE))
    select = session.prepare("SELECT a, b, c, v FROM bound WHERE a = ? AND b = ?")
    select.fetch_size = 5
    list(session.execute(select, (2, "paged")))
    listed = session.prepare("SELECT * FROM bound WHERE a IN ? AND b = :b")
    listed.consistency_level = ConsistencyLevel.LOCAL_QUORUM
    list(session.execute(listed, ([1, 2, 2], "first")))
    typed = session.prepare("SELECT * FROM every_type WHERE k = ?")
    list(session.execute(typed, (1,)))
    # The node forgets what the change concerns: version 4 and later hear UNPREPARED.
    session.execute("ALTER TABLE bound ADD extra int")
    list(session.execute(select, (2, "paged")))
    list(session.execute(listed, ([1], "first")))


def batches(session):
    insert = session.prepare("INSERT INTO bound (a, b, c, v) VALUES (?, ?, ?, ?)")
    unlogged = BatchStatement(BatchType.UNLOGGED, consistency_level=ConsistencyLevel.ONE)
    for a in range(11):
        unlogged.add(insert, (a, "batch", a, "v"))
    unlogged.add(SimpleStatement("INSERT INTO bound (a, b, c) VALUES (%s, 'text', 1)"), (7,))
    session.execute(unlogged)
    logged = BatchStatement(serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL)
    logged.add("DELETE FROM queue WHERE k = 'a'")
    logged.add("DELETE FROM bound WHERE a = 0 AND b = 'batch'")
    session.execute(logged)
    counters = BatchStatement(BatchType.COUNTER)
    counters.add("UPDATE counted SET n = n - 1 WHERE k = 1")
    session.execute(counters)


def options(session, version):
    refusable(session.execute, SimpleStatement("SELECT * FROM bound", consistency_level=ConsistencyLevel.TWO))
    traced = session.execute_async("SELECT n FROM counted", trace=True)
    traced.result()
    if version >= 4:
        refusable(session.execute, "SELECT n FROM counted", custom_payload={"key": b"\x00\x01", "empty": b""})
    if version >= 5:
        other = SimpleStatement("SELECT n FROM counted", keyspace="golden")
        list(session.execute(other))


def main(host, port, version, compression, folder, special=""):
    try:
        cluster, session = connect(host, port, version, compression, special)
    except NoHostAvailable as refused:
        print(refused)
        return
    if version == "auto" or special:
        list(session.execute("SELECT release_version FROM system.local"))
    else:
        everything(session, int(version), compression, folder)
    cluster.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
