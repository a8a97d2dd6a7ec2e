"""What somebody at cqlsh relies on: the checks of ../drivers, one line of JSON each; every check is a cqlsh of its own.

usage: cqlsh_matrix.py NAME=VALUE..., see ../drivers/README.md
"""

import json
import os
import re
import subprocess
import sys
import tempfile

ROWS = 1000


class Absent(Exception):
    """Not in this setting."""


class Shell:
    def __init__(self, given, folder):
        self.given = given
        self.keyspace = given["keyspace"]
        self.folder = folder
        self.settings = os.path.join(folder, "cqlshrc")
        with open(self.settings, "w") as file:
            file.write("[ui]\ncolor = off\n[copy]\nNUMPROCESSES = 2\n")
            if "ca" in given:
                file.write(f"[ssl]\ncertfile = {given['ca']}\nvalidate = true\n")
            if "cert" in given:
                file.write(f"userkey = {given['key']}\nusercert = {given['cert']}\n")

    def command(self, keyspace, **changes):
        given = {**self.given, **changes}
        installed = os.path.join(os.path.dirname(sys.executable), "cqlsh")
        command = [sys.executable, installed, given["host"], given["port"], "--cqlshrc", self.settings, "--no-color"]
        command += ["--connect-timeout", "60", "--request-timeout", "60"]
        if given["version"] != "auto":
            command += ["--protocol-version", given["version"]]
        if "user" in given:
            command += ["-u", given["user"], "-p", given["password"]]
        if "ca" in given:
            command += ["--ssl"]
        return command + (["-k", self.keyspace] if keyspace else [])

    def run(self, text, keyspace=True, **changes):
        """What it prints, lines without the blanks that align columns; and how it ended."""
        script = os.path.join(self.folder, "script.cql")
        with open(script, "w") as file:
            file.write(text + "\n")
        command = self.command(keyspace, **changes) + ["-f", script]
        # Its history and credentials are nobody's business.
        environment = {**os.environ, "HOME": self.folder, "COLUMNS": "200"}
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
        lines = [" ".join(line.split()) for line in (ended.stdout + ended.stderr).splitlines()]
        noise = ("DeprecationWarning", "Warning: Using a password", "warnings.warn")
        kept = [line.replace(self.folder, "FOLDER") for line in lines if line and not any(part in line for part in noise)]
        return [ended.returncode, kept]

    def path(self, name):
        return os.path.join(self.folder, name)


def succeeded(answer):
    status, lines = answer
    assert status == 0, answer
    return lines


def connect(shell):
    return succeeded(shell.run("SHOW VERSION; SHOW HOST; SELECT peer FROM system.peers_v2;", keyspace=False))


def ddl(shell):
    replication = f"{{'class': 'SimpleStrategy', 'replication_factor': {shell.given['replication']}}}"
    return succeeded(
        shell.run(
            f"CREATE KEYSPACE {shell.keyspace}_own WITH replication = {replication}; USE {shell.keyspace};"
            "CREATE TABLE t (id int PRIMARY KEY, name text, note text);",
            keyspace=False,
        )
    )


def describe(shell):
    answers = succeeded(shell.run("DESCRIBE CLUSTER; DESCRIBE TABLES; DESCRIBE TYPE place; DESCRIBE TABLE kinds; DESCRIBE TABLE vectors;"))
    # Ids of tables, and the keyspaces of whoever else is there.
    kept = [line for line in answers if not line.startswith(("AND id", "system", "matrix_")) and "matrix_" not in line]
    return [re.sub(r"^-?[0-9]{4,}.*", "range", line) for line in kept if "[" not in line]


def simple(shell):
    return succeeded(shell.run("INSERT INTO t (id, name, note) VALUES (1, 'it''s', 'me'); SELECT id, name, note FROM t WHERE id = 1;"))


def batch(shell):
    return succeeded(
        shell.run(
            "BEGIN BATCH INSERT INTO t (id, name) VALUES (20, 'logged'); INSERT INTO t (id, name) VALUES (21, 'too'); APPLY BATCH;"
            "BEGIN UNLOGGED BATCH INSERT INTO t (id, name) VALUES (22, 'unlogged'); APPLY BATCH;"
            "UPDATE counts SET n = n + 5 WHERE id = 1; SELECT id, name FROM t WHERE id IN (20, 21, 22); SELECT id, n FROM counts;"
        )
    )


def lwt(shell):
    insert = "INSERT INTO t (id, name) VALUES (100, '{}') IF NOT EXISTS;"
    serial = "SERIAL CONSISTENCY LOCAL_SERIAL; CONSISTENCY SERIAL; SELECT name FROM t WHERE id = 100;"
    return succeeded(shell.run(insert.format("first") + insert.format("second") + serial))


def types(shell):
    values = "1, ['b', 'a'], {3, 1}, {'one': 1}, {1: [2, 3]}, (1, 'two'), {street: 'Main', number: 1}, -1.50, 1180591620717411303424, '::1'"
    return succeeded(
        shell.run(
            f"INSERT INTO kinds (id, l, s, m, n, t, u, d, v, i) VALUES ({values}); SELECT * FROM kinds; EXPAND ON; SELECT * FROM kinds;"
            "EXPAND OFF; INSERT INTO vectors (id, v) VALUES (1, [1.0, 2.5, -3.0]); SELECT * FROM vectors;"
            "INSERT INTO blobs (id, b) VALUES (1, 0x00ff); SELECT * FROM blobs;"
        )
    )


def copy(shell):
    with open(shell.path("in.csv"), "w") as file:
        file.writelines(f"1,{seq},filler {seq}\n" for seq in range(ROWS))
    came = succeeded(shell.run(f"COPY paged (part, seq, filler) FROM '{shell.path('in.csv')}';"))
    went = succeeded(shell.run(f"COPY paged (part, seq, filler) TO '{shell.path('out.csv')}' WITH PAGESIZE = 100;"))
    returned = sorted(open(shell.path("out.csv")).read().splitlines())
    assert returned == sorted(open(shell.path("in.csv")).read().splitlines()), len(returned)
    told = [line for line in came + went if line.startswith(f"{ROWS} rows")]
    return [re.sub(r" in .*", "", line) for line in told]


def paging(shell):
    counted = succeeded(shell.run("PAGING 100; SELECT count(*) FROM paged WHERE part = 1; SELECT seq FROM paged WHERE part = 1;"))
    return [counted[:4], sum(line.isdigit() for line in counted)]


def in_list(shell):
    return succeeded(shell.run("SELECT id FROM t WHERE id IN (1, 20, 20, 21);"))


def tracing(shell):
    lines = succeeded(shell.run("TRACING ON; SELECT name FROM t WHERE id = 1;"))
    steps = ("Tracing session:", "Execute CQL3 query", "Parsing SELECT name", "Request complete")
    return [any(step in line for line in lines) for step in steps]


def warnings(shell):
    insert = "INSERT INTO t (id, note) VALUES ({}, '" + "x" * 4000 + "');"
    return succeeded(shell.run("BEGIN UNLOGGED BATCH " + insert.format(40) + insert.format(41) + " APPLY BATCH;"))


def use(shell):
    return succeeded(shell.run(f"USE {shell.keyspace}; SELECT name FROM t WHERE id = 1; USE system; SELECT key FROM local;", keyspace=False))


def errors(*statements):
    def check(shell):
        found = []
        for statement in statements:
            status, lines = shell.run(statement)
            assert status != 0, lines
            found.append(lines)
        return found

    return check


def error_unauthorized(shell):
    if "user" not in shell.given:
        raise Absent("the cluster asks for no password")
    role = f"{shell.keyspace}_limited"
    succeeded(shell.run(f"CREATE ROLE {role} WITH PASSWORD = 'limited' AND LOGIN = true;"))
    return shell.run(f"SELECT name FROM {shell.keyspace}.t;", keyspace=False, user=role, password="limited")


def password(shell):
    if "user" not in shell.given:
        raise Absent("the cluster asks for no password")
    status, lines = shell.run("SHOW VERSION;", password="wrong")
    assert status != 0, lines
    return lines


CHECKS = {
    "connect": connect,
    "ddl": ddl,
    "describe": describe,
    "simple": simple,
    "batch": batch,
    "lwt": lwt,
    "types": types,
    "copy": copy,
    "paging": paging,
    "in": in_list,
    "tracing": tracing,
    "warnings": warnings,
    "use": use,
    "error-syntax": errors("SELEC name FROM t;"),
    "error-invalid": errors("SELECT name FROM no_such_table;"),
    "error-exists": errors("CREATE TABLE t (id int PRIMARY KEY);"),
    "error-unavailable": errors("CONSISTENCY THREE; SELECT name FROM t WHERE id = 1;"),
    "error-unauthorized": error_unauthorized,
    "password": password,
}


def say(**line):
    print(json.dumps(line), flush=True)


def main():
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    wanted = given["checks"].split(",")
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(given, folder)
        for name, check in CHECKS.items():
            if name not in wanted and wanted != ["session"]:
                continue
            try:
                say(check=name, outcome="passed", detail=check(shell))
            except Absent as reason:
                say(check=name, outcome="absent", detail=str(reason))
            except Exception as error:
                say(check=name, outcome="failed", detail=f"{type(error).__name__}: {error}")


main()
