"""The requests of counting.py, and how many partitions each of them touches."""

import decimal
import itertools
import json
import time

from cassandra.metadata import Murmur3Token
from cassandra.query import UNSET_VALUE, BatchStatement, BatchType, SimpleStatement

UUID = "50554d6e-29bb-11e5-b345-feff819cdc9f"
# Columns that only one case writes.
OF_ONE = (
    "w_bound w_named w_partly w_ttl w_ttl_named w_ttl_unset w_timestamp w_json w_unset w_lwt w_lwt_again w_lwt_if "
    "w_lwt_in w_lwt_exists w_text_batch w_batch w_batch_same w_batch_null w_batch_condition w_other w_delete w_delete_in "
    "w_added w_sum w_negative w_shape w_shape_batch"
).split()
OF_TWO = "w_two w_two_literal w_two_null w_two_in w_two_empty w_two_batch w_two_shape".split()
OF_DEEP = "w_static w_static_insert w_static_if w_deep w_clustering_in w_clustering_none".split()


def batch(*statements, kind=BatchType.LOGGED):
    """A BATCH of texts, and of prepared statements with their values."""
    made = BatchStatement(batch_type=kind)
    made.texts = []
    for statement in statements:
        if isinstance(statement, str):
            made.add(SimpleStatement(statement))
            made.texts.append(statement)
        else:
            prepared, *values = statement
            made.add(prepared, values)
            made.texts.append(prepared.query_string)
    return made


def tables(app):
    def ints(names, kind="int"):
        return "".join(f", {name} {kind}" for name in names)

    keys = {
        "by_decimal": "decimal", "by_double": "double", "by_inet": "inet", "by_text": "text", "by_uuid": "uuid",
        "by_timeuuid": "timeuuid", "by_timestamp": "timestamp", "by_tuple": "frozen<tuple<int, text>>",
        "by_set": "frozen<set<int>>", "by_list": "frozen<list<int>>",
    }  # fmt: skip
    statics = ints((name for name in OF_DEEP if "static" in name), "int static")
    app.define(
        f"CREATE TABLE one (k int PRIMARY KEY, v int{ints(OF_ONE)})",
        f"CREATE TABLE two (a int, b text, c int, v int{ints(OF_TWO)}, PRIMARY KEY ((a, b), c))",
        f"CREATE TABLE deep (k int, c1 int, c2 int, s int static, v int{statics}{ints(n for n in OF_DEEP if 'static' not in n)},"
        " PRIMARY KEY (k, c1, c2))",
        "CREATE TABLE counts (k int, c int, n counter, m counter, PRIMARY KEY (k, c))",
        *(f"CREATE TABLE {name} (k {kind} PRIMARY KEY, v int, w_{name} int)" for name, kind in keys.items()),
    )


def values(app):
    bound = app.prepare("INSERT INTO one (k, w_bound) VALUES (?, ?)")
    for key in range(4):
        app.exact("w_bound", 1, bound, (key, 1))
    app.exact("w_bound", 1, bound, (1, None))
    app.refused("w_bound", bound, (None, 1))
    app.exact("w_named", 1, app.prepare("UPDATE one SET w_named = :v WHERE k = :k"), {"k": 1, "v": 2})
    app.exact("r_named", 1, app.prepare("SELECT v AS r_named FROM two WHERE b = :b AND c = :x AND a = :x"), {"x": 1, "b": "x"})
    app.refused("r_null", app.prepare("SELECT v AS r_null FROM one WHERE k = ?"), (None,))
    two = app.prepare("INSERT INTO two (b, w_two, c, a) VALUES (?, ?, ?, ?)")
    app.exact("w_two", 1, two, ("x", 1, 1, 1))
    # A component may be empty, a whole key may not.
    app.exact("w_two", 1, two, ("", 1, 1, 1))
    app.refused("w_two", two, (None, 1, 1, 1))
    app.refused("w_two", two, ("x", 1, None, 1))
    app.refused("r_empty", app.prepare("SELECT v AS r_empty FROM by_text WHERE k = ?"), ("",))
    limited = app.prepare("SELECT v AS r_limit FROM one WHERE k = ? LIMIT ?")
    app.exact("r_limit", 1, limited, (1, 5))
    app.refused("r_limit", limited, (1, 0))
    if app.version >= 4:
        app.exact("r_limit", 1, limited, (1, UNSET_VALUE))
        app.exact("w_unset", 1, app.prepare("INSERT INTO one (k, w_unset) VALUES (?, ?)"), (7, UNSET_VALUE))
        app.refused("w_two", two, ("x", 1, UNSET_VALUE, 1))


def in_lists(app):
    one = app.prepare("SELECT v AS r_in FROM one WHERE k IN ?")
    for keys in ([1, 2, 2, 3], [5], [], [4, 4, 4], list(range(1000))):
        app.exact("r_in", len(set(keys)), one, (keys,), traced=len(keys) < 100)
    app.exact("r_in_markers", 2, app.prepare("SELECT v AS r_in_markers FROM one WHERE k IN (?, 7, ?)"), (7, 9))
    app.refused("r_in_null", app.prepare("SELECT v AS r_in_null FROM one WHERE k IN (1, ?)"), (None,))
    product = app.prepare("SELECT v AS r_product FROM two WHERE a IN ? AND b IN ?")
    app.exact("r_product", 6, product, ([1, 2, 3, 3], ["x", "y", "x"]))
    app.exact("r_product", 0, product, ([1, 2, 3], []))
    app.exact("r_product", 3000, product, (list(range(60)), [str(n) for n in range(50)]), traced=False)
    # Equal for the type is the same key of a list.
    in_types = (
        ("decimal", [decimal.Decimal("1.0"), decimal.Decimal("1.00"), decimal.Decimal("2")], 2),
        ("double", [0.0, -0.0, float("nan"), float("nan")], 3),
        ("text", ["a", "a", "A"], 2),
        ("tuple", [(1, "x"), (1, "x"), (1, None), (None, None)], 3),
        ("set", [{1, 2}, {2, 1}, set()], 2),
        ("list", [[1, 2], [2, 1], [1, 2]], 2),
    )
    for name, keys, count in in_types:
        case = f"r_in_{name}"
        app.exact(case, count, app.prepare(f"SELECT v AS {case} FROM by_{name} WHERE k IN ?"), (keys,))
    app.exact("r_in_inet", 1, "SELECT v AS r_in_inet FROM by_inet WHERE k IN ('127.0.0.1', '::ffff:127.0.0.1')")
    app.exact("r_tuple", 1, "SELECT v AS r_tuple FROM by_tuple WHERE k = (1, 'x')")
    app.exact("r_tuple_in", 2, app.prepare("SELECT v AS r_tuple_in FROM by_tuple WHERE k IN ((1, 'x'), (1, 'x'), (?, 'y'))"), (2,))
    # Rows of several partitions in order cannot be had in pages.
    ordered = SimpleStatement("SELECT v AS r_ordered FROM deep WHERE k IN (1, 2, 1) ORDER BY c1")
    app.refused("r_ordered", ordered)
    ordered = SimpleStatement(ordered.query_string, fetch_size=None)
    app.exact("r_ordered", 2, ordered)


def clustering(app):
    app.exact("w_deep", 1, "INSERT INTO deep (k, c1, c2, w_deep) VALUES (1, 1, 1, 1)")
    app.exact("r_c_in", 1, app.prepare("SELECT v AS r_c_in FROM deep WHERE k = ? AND c1 IN ?"), (1, [1, 2, 2]))
    none = app.prepare("SELECT v AS r_c_none FROM deep WHERE k = ? AND c1 IN ?")
    app.exact("r_c_none", 0, none, (1, []))
    app.exact("r_c_pairs", 1, "SELECT v AS r_c_pairs FROM deep WHERE k = 1 AND (c1, c2) IN ((1, 1), (2, 2))")
    pairs = app.prepare("SELECT v AS r_c_pairs_bound FROM deep WHERE k IN ? AND (c1, c2) IN ?")
    app.exact("r_c_pairs_bound", 2, pairs, ([1, 2, 1], [(1, 1), (1, 2)]))
    app.exact("r_c_pairs_bound", 0, pairs, ([1, 2, 1], []))
    app.exact("r_c_tuples", 1, app.prepare("SELECT v AS r_c_tuples FROM deep WHERE k = ? AND (c1, c2) IN (?, ?)"), (1, (1, 1), (1, 2)))
    app.exact("r_c_slice", 1, app.prepare("SELECT v AS r_c_slice FROM deep WHERE k = ? AND (c1, c2) > (?, ?)"), (1, 1, 1))
    impossible = app.prepare("SELECT v AS r_c_impossible FROM deep WHERE k = ? AND c1 > ? AND c1 < ?")
    app.exact("r_c_impossible", 0, impossible, (1, 5, 3))
    app.exact("r_c_impossible", 1, impossible, (1, 3, 5))
    update = app.prepare("UPDATE deep SET w_clustering_in = 1 WHERE k IN ? AND c1 = 1 AND c2 IN ?")
    app.exact("w_clustering_in", 2, update, ([1, 2, 2], [1, 2]))
    app.exact("r_p_limit", 2, "SELECT v AS r_p_limit FROM deep WHERE k IN (1, 2) PER PARTITION LIMIT 1")


def pages(app):
    app.define("CREATE TABLE paged (k int, c int, v int, w_paged int, PRIMARY KEY (k, c))")
    insert = app.prepare("INSERT INTO paged (k, c, v, w_paged) VALUES (?, ?, 1, 1)")
    for key, row in itertools.product(range(6), range(5)):
        app.exact("w_paged", 1, insert, (key, row), traced=False)
    keys = [0, 1, 2, 3, 4, 5, 0, 1]
    several = app.prepare("SELECT v AS r_pages FROM paged WHERE k IN ?")
    several.fetch_size = 7
    app.in_pages("r_pages", 6, several, (keys,), 5)
    some = SimpleStatement("SELECT v AS r_pages_limit FROM paged WHERE k IN (0, 1, 2, 3) PER PARTITION LIMIT 2", fetch_size=3)
    app.in_pages("r_pages_limit", 4, some, None, 3)
    one = app.prepare("SELECT v AS r_pages_of_one FROM paged WHERE k IN ?")
    one.fetch_size = 2
    app.in_pages("r_pages_of_one", 1, one, ([3, 3],), 3)
    # All partitions are read where the limit is below the size of the page, and where there are no pages.
    limited = app.prepare("SELECT v AS r_limit_in FROM paged WHERE k IN ? LIMIT 3")
    app.exact("r_limit_in", 6, limited, (keys,))
    limited.fetch_size = None
    app.exact("r_limit_in", 6, limited, (keys,))
    groups = app.prepare("SELECT k, count(*) AS r_group_limit FROM paged WHERE k IN ? GROUP BY k LIMIT ?")
    app.at_most("r_group_limit", 6, groups, (keys, 1))
    folded = app.prepare("SELECT count(*) AS r_count_in FROM paged WHERE k IN ?")
    app.exact("r_count_in", 6, folded, (keys,))


def partly_literal(app):
    app.exact("r_partly", 1, app.prepare("SELECT v AS r_partly FROM two WHERE a = 1 AND b = ?"), ("x",))
    app.exact("r_partly_in", 2, app.prepare("SELECT v AS r_partly_in FROM two WHERE a = ? AND b IN ('x', ?)"), (1, "y"))
    app.exact("r_partly_same", 1, app.prepare("SELECT v AS r_partly_same FROM two WHERE a IN (1, ?) AND b = 'x'"), (1,))
    app.exact("r_row_bound", 1, app.prepare("SELECT v AS r_row_bound FROM two WHERE a = 1 AND b = 'x' AND c = ?"), (1,))
    app.exact("w_two_literal", 1, app.prepare("INSERT INTO two (a, b, c, w_two_literal) VALUES (1, ?, 2, ?)"), ("x", 1))
    app.exact("w_two_in", 2, app.prepare("UPDATE two SET w_two_in = ? WHERE a IN (1, 2) AND b = ? AND c = 1"), (1, "x"))
    app.refused("w_two_null", app.prepare("UPDATE two SET w_two_null = 1 WHERE a = 1 AND b = ? AND c = 1"), (None,))
    app.exact("w_partly", 1, app.prepare("INSERT INTO one (w_partly, k) VALUES (?, 5)"), (1,))


def shapes(app):
    """Texts that differ in their constants alone."""
    for number in range(6):
        app.exact("r_shape", 1, f"SELECT v AS r_shape FROM one WHERE k = {number}")
        listed = f"SELECT v AS r_shape_in FROM one WHERE k IN ({number}, {number % 3}, 4)"
        app.exact("r_shape_in", len({number, number % 3, 4}), listed)
        of_two = f"a = {number} AND b = 'it''s {number}' AND c > {number} LIMIT {number + 1}"
        app.exact("r_shape_two", 1, f"SELECT v AS r_shape_two FROM two WHERE {of_two}")
        between = f"SELECT v AS r_shape_between FROM deep WHERE k = {number} AND c1 > 3 AND c1 < {number}"
        app.exact("r_shape_between", 1 if number > 3 else 0, between)
        app.exact("w_shape", 1, f"INSERT INTO one (k, w_shape) VALUES ({number}, 1) USING TIMESTAMP {number + 1}")
        in_both = f"UPDATE two SET w_two_shape = {number} WHERE a IN ({number}, 3) AND b = 'x' AND c = {number}"
        app.exact("w_two_shape", len({number, 3}), in_both)
        rows = [(number, 1), (number + 1, 2), (number, 3)]
        inserts = [f"INSERT INTO one (k, w_shape_batch) VALUES ({key}, {value})" for key, value in rows]
        app.exact("w_shape_batch", 2, batch(*inserts))
    app.refused("r_shape", "SELECT v AS r_shape FROM one WHERE k = 99999999999")


def functions(app):
    app.exact("w_by_uuid", 1, "INSERT INTO by_uuid (k, w_by_uuid) VALUES (uuid(), 1)")
    app.exact("w_by_timeuuid", 1, app.prepare("INSERT INTO by_timeuuid (k, w_by_timeuuid) VALUES (now(), ?)"), (1,))
    app.exact("w_by_timestamp", 1, "UPDATE by_timestamp SET w_by_timestamp = 1 WHERE k = toTimestamp(now())")
    app.exact("r_uuid", 1, "SELECT v AS r_uuid FROM by_uuid WHERE k = uuid()")
    app.exact("r_hint", 1, app.prepare("SELECT v AS r_hint FROM one WHERE k = (int) ?"), (5,))
    app.exact("r_sum", 1, "SELECT v AS r_sum FROM one WHERE k = 1 + 1")
    app.exact("r_sum_in", 2, app.prepare("SELECT v AS r_sum_in FROM one WHERE k IN (1 + 1, 2, (int) ? + 1)"), (4,))
    app.exact("r_blob", 1, "SELECT v AS r_blob FROM one WHERE k IN (blob_as_int(0x00000001), 1)")
    app.exact("w_sum", 1, "UPDATE one SET w_sum = 1 WHERE k = 2 * 3")
    app.define(
        "CREATE FUNCTION next_of (n int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java AS 'return n + 1;'"
    )
    app.exact("r_user", 1, "SELECT v AS r_user FROM one WHERE k = next_of(1)")
    # Whether these are one or two partitions only the server knows.
    app.at_least("r_user_in", 1, "SELECT v AS r_user_in FROM one WHERE k IN (next_of(1), 2)")


def tokens(app):
    app.ring("r_token", "token-range", app.prepare("SELECT v AS r_token FROM one WHERE token(k) > ? AND token(k) <= ?"), (-(2**62), 2**62))
    app.ring("r_token_of", "token-range", "SELECT v AS r_token_of FROM one WHERE token(k) > token(5)")
    app.ring("r_token_two", "token-range", app.prepare("SELECT v AS r_token_two FROM two WHERE token(a, b) > token(?, ?)"), (1, "x"))
    keys = list(range(40))
    above = sum(Murmur3Token.hash_fn(key.to_bytes(4, "big")) > 0 for key in keys)
    filtered = app.prepare("SELECT v AS r_token_in FROM one WHERE k IN ? AND token(k) > ?")
    app.exact("r_token_in", above, filtered, (keys, 0))
    app.ring("r_scan", "scan", "SELECT v AS r_scan FROM one")
    app.ring("r_count", "scan", "SELECT count(*) AS r_count FROM two")
    app.ring("r_half_key", "scan", app.prepare("SELECT v AS r_half_key FROM two WHERE a = ? ALLOW FILTERING"), (1,))
    app.ring("r_distinct", "scan", "SELECT DISTINCT k AS r_distinct, s FROM deep")


def json_inserts(app):
    app.define(
        "CREATE TABLE json_text (k int PRIMARY KEY, v int)",
        "CREATE TABLE json_bound (a int, b text, v int, PRIMARY KEY ((a, b)))",
        'CREATE TABLE json_names ("K" int PRIMARY KEY, v int)',
    )
    for document in ({"k": 1, "v": 2}, {"k": "2"}, {"V": 1, "K": 3}):
        app.exact("json_text", 1, f"INSERT INTO json_text JSON '{json.dumps(document)}'")
    app.exact("json_names", 1, """INSERT INTO json_names JSON '{"\\"K\\"": 1}' DEFAULT UNSET""")
    bound = app.prepare("INSERT INTO json_bound JSON ?")
    for number in range(3):
        app.exact("json_bound", 1, bound, (json.dumps({"a": number, "b": f"é {number}", "v": None}),))
    app.refused("json_bound", bound, ('{"a": null, "b": "x"}',))
    app.refused("json_bound", bound, ('{"a": 1}',))
    app.refused("json_bound", bound, ("{",))
    app.exact("w_json", 1, app.prepare("INSERT INTO one (k, w_json) VALUES (fromJson(?), fromJson('1'))"), ("17",))


def batches(app):
    first = app.prepare("INSERT INTO one (k, w_batch) VALUES (?, ?)")
    second = app.prepare("UPDATE two SET w_two_batch = ? WHERE a = 1 AND b = ? AND c = ?")
    literal = "INSERT INTO by_text (k, v) VALUES ('a', 1)"
    # Two keys of one, two of two, one of by_text.
    mixed = batch((first, 1, 1), (second, 1, "x", 1), literal, (first, 1, 2), (second, 2, "x", 2), (first, 2, 1), (second, 1, "y", 1))
    app.exact("w_batch", 5, mixed)
    # The same bytes as key of two tables are two partitions.
    other = app.prepare("INSERT INTO deep (k, s) VALUES (?, 1)")
    same = app.prepare("INSERT INTO one (k, w_batch_same) VALUES (?, ?)")
    app.exact("w_batch_same", 2, batch((same, 1, 1), (other, 1), kind=BatchType.UNLOGGED))
    # What an IN list folds is two keys of a batch.
    one_zero = "INSERT INTO by_decimal (k, w_by_decimal) VALUES (1.0, 1)"
    app.exact("w_by_decimal", 2, batch(one_zero, one_zero.replace("1.0", "1.00"), one_zero))
    null = app.prepare("INSERT INTO one (k, w_batch_null) VALUES (?, 1)")
    app.refused("w_batch_null", batch((null, 1), (null, None)))
    deletes = "DELETE w_delete_in FROM one WHERE k IN (1, 2, 1)"
    app.exact("w_delete_in", 3, batch(deletes, "DELETE v FROM one WHERE k = 3"))
    condition = "UPDATE one SET w_batch_condition = 1 WHERE k = 1"
    app.exact("w_batch_condition", 1, batch(condition + " IF w_batch_condition = 5", condition), traced=False)
    text = app.prepare(
        "BEGIN UNLOGGED BATCH USING TIMESTAMP ? INSERT INTO one (k, w_text_batch) VALUES (?, 1); "
        "UPDATE deep SET v = ? WHERE k = ? AND c1 = 1 AND c2 = 1; DELETE FROM deep WHERE k = 1 AND c1 = ? APPLY BATCH"
    )
    app.exact("w_text_batch", 3, text, (10, 1, 2, 2, 3))
    app.exact("w_text_batch", 2, text, (10, 1, 2, 1, 3))
    add = app.prepare("UPDATE counts SET n = n + ? WHERE k = ? AND c = ?")
    app.exact("n", 2, batch((add, 1, 1, 1), (add, 1, 1, 2), (add, 1, 2, 1), "UPDATE counts SET n = n - 1 WHERE k = 2 AND c = 9", kind=BatchType.COUNTER), traced=False)
    app.exact("m", 1, app.prepare("UPDATE counts SET m = m + ? WHERE k = ? AND c IN (1, 2)"), (1, 1), traced=False)


def before_the_key(app):
    ttl = app.prepare("UPDATE one USING TTL ? AND TIMESTAMP ? SET w_ttl = ? WHERE k = ?")
    for key in range(3):
        app.exact("w_ttl", 1, ttl, (100, 7, 1, key))
    named = app.prepare("UPDATE one USING TTL :k SET w_ttl_named = 1 WHERE k = :k")
    app.exact("w_ttl_named", 1, named, {"k": 60})
    app.exact("w_timestamp", 1, app.prepare("DELETE w_timestamp FROM one USING TIMESTAMP ? WHERE k IN (?, 1)"), (5, 1))
    app.refused("w_negative", app.prepare("INSERT INTO one (k, w_negative) VALUES (?, 1) USING TTL ?"), (1, -1))
    if app.version >= 4:
        unset = app.prepare("INSERT INTO one (k, w_ttl_unset) VALUES (?, 1) USING TTL ? AND TIMESTAMP ?")
        app.exact("w_ttl_unset", 1, unset, (1, UNSET_VALUE, UNSET_VALUE))


def conditions(app):
    insert = app.prepare("INSERT INTO one (k, w_lwt) VALUES (?, ?) IF NOT EXISTS")
    for _ in range(2):
        app.exact("w_lwt", 1, insert, (300, 1), traced=False)
    app.exact("w_lwt_if", 1, app.prepare("UPDATE one SET w_lwt_if = ? WHERE k = ? IF v = ?"), (1, 300, 1), traced=False)
    app.exact("w_lwt_in", 1, app.prepare("UPDATE one SET w_lwt_in = ? WHERE k = ? IF v IN ?"), (1, 300, [1, 2]), traced=False)
    app.exact("w_lwt_exists", 1, "DELETE w_lwt_exists FROM one WHERE k = 300 IF EXISTS", traced=False)
    app.refused("w_lwt_again", "UPDATE one SET w_lwt_again = 1 WHERE k IN (1, 2) IF EXISTS")
    app.exact("w_static_if", 1, "UPDATE deep SET w_static_if = 1 WHERE k = 1 IF s = 1", traced=False)


def deletes(app):
    app.define(*(f"CREATE TABLE d_{name} (k int, c1 int, c2 int, v int, PRIMARY KEY (k, c1, c2))" for name in ("all", "prefix", "slice", "rows")))
    app.exact("d_all", 1, app.prepare("DELETE FROM d_all WHERE k = ?"), (1,))
    app.exact("d_prefix", 1, app.prepare("DELETE FROM d_prefix WHERE k = ? AND c1 IN ?"), (1, [1, 2]))
    ranges = app.prepare("DELETE FROM d_slice WHERE k IN ? AND c1 > ? AND c1 <= ?")
    app.exact("d_slice", 2, ranges, ([1, 2, 2], 1, 5))
    app.exact("d_rows", 2, app.prepare("DELETE FROM d_rows WHERE k IN ? AND (c1, c2) IN ((1, 1), (1, 2))"), ([1, 2],))


def statics(app):
    app.exact("r_static", 1, app.prepare("SELECT s AS r_static FROM deep WHERE k = ?"), (1,))
    app.exact("r_static_in", 2, "SELECT DISTINCT k, s AS r_static_in FROM deep WHERE k IN (1, 2, 2)")
    app.exact("w_static", 2, app.prepare("UPDATE deep SET w_static = ? WHERE k IN (1, ?)"), (1, 2))
    app.exact("w_static_insert", 1, app.prepare("INSERT INTO deep (k, w_static_insert) VALUES (?, ?)"), (1, 1))


def views(app):
    app.define(
        "CREATE TABLE owned (id int PRIMARY KEY, owner text, tag int, w_owned int)",
        "CREATE MATERIALIZED VIEW by_owner AS SELECT * FROM owned WHERE owner IS NOT NULL AND id IS NOT NULL PRIMARY KEY (owner, id)",
        "CREATE INDEX owned_tag ON owned (tag)",
    )
    update = app.prepare("UPDATE owned SET w_owned = 1, owner = ? WHERE id = ?")
    for number in range(6):
        app.exact("w_owned", 1, update, (f"o{number % 3}", number))
    app.exact("r_view", 1, app.prepare("SELECT id AS r_view FROM by_owner WHERE owner = ?"), ("o1",))
    app.exact("r_view_in", 2, app.prepare("SELECT id AS r_view_in FROM by_owner WHERE owner IN ?"), (["o1", "o2", "o1"],))
    app.ring("r_view_scan", "scan", "SELECT id AS r_view_scan FROM by_owner")
    app.ring("r_index", "index", app.prepare("SELECT id AS r_index FROM owned WHERE tag = ?"), (1,))
    app.exact("r_index_key", 1, app.prepare("SELECT id AS r_index_key FROM owned WHERE tag = ? AND id = ?"), (1, 2))


def changed_tables(app):
    app.define("CREATE TABLE widened (k int PRIMARY KEY, v int)")
    every = app.prepare("SELECT * FROM widened WHERE k IN ?")
    app.exact("widened", 2, every, ([1, 2],))
    app.define("ALTER TABLE widened ADD w text")
    app.exact("widened", 3, every, ([1, 2, 3],))
    # Past both proxies; they hear of it.
    app.define("ALTER TABLE widened ADD x text", through="node")
    app.exact("widened", 1, every, ([1, 1],))
    app.define("CREATE TABLE renamed (k int, c int, v int, PRIMARY KEY (k, c))")
    app.define("ALTER TABLE renamed RENAME k TO id")
    renamed = app.prepare("SELECT v AS r_renamed FROM renamed WHERE id IN ?")
    app.exact("r_renamed", 2, renamed, ([1, 2, 1],))
    app.define("CREATE TABLE remade (a int, b int, v int, PRIMARY KEY (a, b))")
    remade = app.prepare("SELECT v AS r_remade FROM remade WHERE a IN ? AND b IN ?")
    app.exact("r_remade", 2, remade, ([1, 2], [1, 2, 3]))
    app.define("DROP TABLE remade", "CREATE TABLE remade (a int, b int, v int, PRIMARY KEY ((a, b)))")
    app.exact("r_remade", 6, remade, ([1, 2], [1, 2, 3]))
    app.define("DROP TABLE remade", "CREATE TABLE remade (a int, b int, v int, PRIMARY KEY (b, a))")
    app.exact("r_remade", 3, remade, ([1, 2], [1, 2, 3]))
    # The same past both proxies, which need a moment to hear of it, and on a busy machine a long one: until then they
    # count by the key that was.
    app.define("CREATE TABLE remade_past (a int, b int, v int, w_remade_past int, PRIMARY KEY (a, b))")
    remade = app.prepare("SELECT v AS r_remade_past FROM remade_past WHERE a IN ? AND b IN ?")
    written = [f"INSERT INTO remade_past (a, b, w_remade_past) VALUES (1, {b}, 1)" for b in range(3)]
    for count, of_rows, key in ((2, 1, None), (6, 3, "(a, b)"), (3, 3, "b, a")):
        if key:
            create = f"CREATE TABLE remade_past (a int, b int, v int, w_remade_past int, PRIMARY KEY ({key}))"
            app.define("DROP TABLE remade_past", create, through="node")
            time.sleep(10)
        app.exact("w_remade_past", of_rows, batch(*written))
        app.exact("r_remade_past", count, remade, ([1, 2], [1, 2, 3]))


def ids(app):
    """Ids that the connection, or the proxy, has not seen prepared."""
    through_a = app.prepare("SELECT v AS r_id_a FROM one WHERE k IN ?")
    app.exact("r_id_a", 2, through_a, ([1, 2, 1],))
    app.exact("r_id_a", 3, through_a, ([1, 2, 3],), through="b")
    at_the_node = app.prepare("SELECT v AS r_id_node FROM two WHERE a = 1 AND b IN ?", through="node")
    for through, _ in itertools.product("ab", range(3)):
        app.exact("r_id_node", 2, at_the_node, (["x", "y", "x"],), through=through)
    insert = app.prepare("INSERT INTO one (k, w_other) VALUES (?, ?)", through="b")
    app.exact("w_other", 2, batch((insert, 1, 1), (insert, 2, 2), (insert, 1, 3)))
    app.exact("w_other", 2, batch((insert, 1, 1), (insert, 2, 2), (insert, 1, 3)), through="b")


def language_of_six(app):
    """What only Cassandra 6.0 reads."""
    app.exact("r_between", 1, app.prepare("SELECT v AS r_between FROM deep WHERE k = ? AND c1 BETWEEN ? AND ?"), (1, 2, 5))
    app.exact("r_not_in", 1, app.prepare("SELECT v AS r_not_in FROM deep WHERE k = ? AND c1 NOT IN ?"), (1, [2, 3]))
    several = app.prepare("SELECT v AS r_between_in FROM deep WHERE k IN ? AND c1 BETWEEN 1 AND 2")
    app.exact("r_between_in", 2, several, ([1, 2, 1],))
    app.ring("r_key_between", "scan", "SELECT v AS r_key_between FROM one WHERE k BETWEEN 1 AND 2 ALLOW FILTERING")
    app.ring("r_token_between", "token-range", "SELECT v AS r_token_between FROM one WHERE token(k) BETWEEN 0 AND 9")


def transactions(app):
    mode = "WITH transactional_mode = 'full'"
    app.define(
        f"CREATE TABLE acct (id int PRIMARY KEY, cents int, w_acct int) {mode}",
        f"CREATE TABLE ledger (acct int, seq int, note text, PRIMARY KEY (acct, seq)) {mode}",
    )
    account = app.prepare("INSERT INTO acct (id, cents, w_acct) VALUES (?, 100, 1)")
    for key in range(5):
        app.exact("w_acct", 1, account, (key,))
    transfer = app.prepare(
        "BEGIN TRANSACTION LET t_transfer = (SELECT cents FROM acct WHERE id = ?); SELECT t_transfer.cents; "
        "IF t_transfer.cents > ? THEN UPDATE acct SET cents -= ? WHERE id = ?; UPDATE acct SET cents += ? WHERE id = ?; "
        "INSERT INTO ledger (acct, seq, note) VALUES (?, ?, ?); END IF COMMIT TRANSACTION"
    )
    assert app.exact("t_transfer", 3, transfer, (1, 5, 10, 1, 10, 2, 1, 1, "x")) == [(100,)]
    app.exact("t_transfer", 2, transfer, (1, 5, 10, 1, 10, 1, 1, 2, "x"))
    app.exact("t_transfer", 4, transfer, (3, 5, 10, 1, 10, 2, 1, 3, "x"))
    # Accord is given all keys, whatever the condition says.
    app.exact("t_transfer", 3, transfer, (1, 5_000, 10, 1, 10, 2, 1, 1, "x"))
    app.refused("t_transfer", transfer, (None, 5, 10, 1, 10, 2, 1, 1, "x"))
    app.exact(
        "t_text", 3,
        "BEGIN TRANSACTION LET t_text = (SELECT * FROM acct WHERE id = 1); LET other = (SELECT * FROM acct WHERE id = 2); "
        "IF t_text IS NOT NULL AND other.cents >= 0 THEN DELETE FROM ledger WHERE acct = 7 AND seq = 1; END IF "
        "COMMIT TRANSACTION",
    )  # fmt: skip
    read = app.prepare("BEGIN TRANSACTION SELECT cents AS t_read FROM acct WHERE id = ?; COMMIT TRANSACTION")
    app.exact("t_read", 1, read, (1,))
    blind = app.prepare(
        "BEGIN TRANSACTION LET t_one = (SELECT cents FROM acct WHERE id = ?); UPDATE acct SET cents = ? WHERE id = ?; "
        "COMMIT TRANSACTION"
    )
    app.exact("t_one", 1, blind, (4, 1, 4))
    app.exact("t_one", 2, blind, (4, 1, 5))



STEPS = (
    tables, values, in_lists, clustering, pages, partly_literal, shapes, functions, tokens, json_inserts, batches, before_the_key,
    conditions, deletes, statics, views, changed_tables, ids,
)  # fmt: skip


def steps(release):
    """All that a server of this release reads."""
    of_six = (language_of_six, transactions) if int(release.split(".")[0]) >= 6 else ()
    return STEPS + of_six
