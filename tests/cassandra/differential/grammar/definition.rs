//! Definitions: tables, types, indexes, views, functions and keyspaces, made, changed and dropped in a
//! keyspace of their own.
//!
//! The names are few, so that some definitions find what they need and others are refused.

use cqlens_cql::ServerVersion;

use super::super::random::Random;

/// Draws definitions.
pub(crate) struct Definitions<'r> {
    random: &'r mut Random,
    server: ServerVersion,
}

const TYPES: &[&str] = &[
    "int",
    "text",
    "bigint",
    "uuid",
    "frozen<list<int>>",
    "list<text>",
    "set<int>",
    "map<text, int>",
    "frozen<map<int, frozen<set<text>>>>",
    "tuple<int, text>",
    "vector<float, 4>",
    "decimal",
    "varchar",
    "'org.apache.cassandra.db.marshal.IntegerType'",
    "frozen<forge.y0>",
    "frozen<y1>",
    "y0",
    "duration",
];
const KEY_TYPES: &[&str] = &[
    "int",
    "text",
    "timeuuid",
    "date",
    "frozen<list<int>>",
    "decimal",
    "ascii",
];

impl<'r> Definitions<'r> {
    pub(crate) fn new(random: &'r mut Random, server: ServerVersion) -> Self {
        Self { random, server }
    }

    pub(crate) fn any(&mut self) -> String {
        if self.server >= ServerVersion::V6_0 && self.random.chance(30) {
            return self.of_6_0();
        }
        match self.random.below(100) {
            0..22 => self.create_table(),
            22..38 => self.alter_table(),
            38..42 => format!("DROP TABLE {}{}", self.perhaps("IF EXISTS "), self.table()),
            42..50 => self.user_type(),
            50..64 => self.create_index(),
            64..67 => format!(
                "DROP INDEX {}forge.i{}",
                self.perhaps("IF EXISTS "),
                self.random.below(4)
            ),
            67..75 => self.view(),
            75..82 => self.function(),
            82..85 => self.aggregate(),
            85..89 => self.keyspace(),
            89..91 => format!("TRUNCATE {}{}", self.perhaps("TABLE "), self.table()),
            _ => self.other(),
        }
    }

    fn perhaps(&mut self, words: &'static str) -> &'static str {
        if self.random.chance(50) { words } else { "" }
    }

    fn table(&mut self) -> String {
        format!("forge.t{}", self.random.below(4))
    }

    fn create_table(&mut self) -> String {
        let (exists, table) = (self.perhaps("IF NOT EXISTS "), self.table());
        let mut columns = vec![
            format!("k {}", self.random.pick(KEY_TYPES)),
            format!("j {}", self.random.pick(KEY_TYPES)),
        ];
        columns.extend(["c", "d"].map(|name| format!("{name} {}", self.random.pick(KEY_TYPES))));
        columns.extend(["v", "w"].map(|name| format!("{name} {}", self.random.pick(TYPES))));
        let key = match self.random.below(6) {
            0 => "PRIMARY KEY (k)",
            1 => "PRIMARY KEY ((k, j), c)",
            2 => "PRIMARY KEY (k, j, c, d)",
            3 => "PRIMARY KEY ((k), c, d)",
            _ => "PRIMARY KEY (k, c, d)",
        };
        if key.contains(" c") && self.random.chance(40) {
            columns.push("s int STATIC".to_owned());
        }
        columns.push(key.to_owned());
        format!(
            "CREATE TABLE {exists}{table} ({}){}",
            columns.join(", "),
            self.options(key)
        )
    }

    /// A definition that only Cassandra 6.0 can parse.
    fn of_6_0(&mut self) -> String {
        let (table, other) = (self.table(), self.table());
        match self.random.below(12) {
            0..4 => {
                let check = self.random.pick(&[
                    "v int CHECK v > 0",
                    "v int NOT NULL CHECK v <= 100 AND v != 7",
                    "v text CHECK LENGTH() < 8",
                    "v text CHECK OCTET_LENGTH() <= 16 AND LENGTH() > 0",
                    "v text CHECK REGEXP() = 'a.*'",
                    "v text CHECK JSON",
                    "v text NOT NULL",
                    "v int CHECK LENGTH() < 8",
                    "v int CHECK w > 0",
                    "v list<int> CHECK LENGTH() < 8",
                ]);
                let mode = self.random.pick(&["", "", " WITH transactional_mode = 'full'"]);
                format!("CREATE TABLE {table} (k int, c int, {check}, w int, PRIMARY KEY (k, c)){mode}")
            }
            4 => format!(
                "CREATE TABLE {}{table} LIKE {other}{}",
                self.perhaps("IF NOT EXISTS "),
                self.random
                    .pick(&["", " WITH INDEXES", " WITH comment = 'a copy'", " WITH COMMENTS"])
            ),
            5 => format!(
                "ALTER TABLE {table} ALTER {}v {}",
                self.perhaps("IF EXISTS "),
                self.random
                    .pick(&["CHECK v > 1", "DROP CHECK", "NOT NULL", "CHECK LENGTH() < 4"])
            ),
            6 => format!("ALTER TABLE {table} ADD x int CHECK x > 0"),
            7 => format!(
                "ALTER TABLE {table} WITH transactional_mode = '{}'",
                self.random.pick(&["off", "full", "mixed_reads", "nothing"])
            ),
            8 => format!(
                "COMMENT ON {} IS {}",
                self.random.pick(&[
                    "TABLE forge.t0",
                    "COLUMN forge.t1.v",
                    "KEYSPACE forge",
                    "TYPE forge.y0"
                ]),
                self.random.pick(&["'a comment'", "NULL", "''"])
            ),
            9 => format!(
                "SECURITY LABEL ON {} IS {}",
                self.random.pick(&[
                    "TABLE forge.t0",
                    "COLUMN forge.t1.v",
                    "KEYSPACE forge",
                    "FIELD forge.y0.a"
                ]),
                self.random.pick(&["'secret'", "NULL"])
            ),
            10 => self
                .random
                .pick(&[
                    "CREATE ROLE reader WITH GENERATED PASSWORD",
                    "LIST SUPERUSERS",
                    "CREATE USER u WITH GENERATED PASSWORD",
                ])
                .to_owned(),
            _ => format!("ALTER TABLE {table} ALTER v MASKED WITH DEFAULT"),
        }
    }

    fn options(&mut self, key: &str) -> String {
        let mut options = Vec::new();
        if key.contains("c, d") && !key.contains('j') && self.random.chance(50) {
            options.push("CLUSTERING ORDER BY (c DESC, d ASC)".to_owned());
        }
        for _ in 0..self.random.below(3) {
            options.push(self.option());
        }
        if options.is_empty() {
            String::new()
        } else {
            format!(" WITH {}", options.join(" AND "))
        }
    }

    fn option(&mut self) -> String {
        self.random
            .pick(&[
                "comment = 'it''s a table'",
                "gc_grace_seconds = 3600",
                "default_time_to_live = 60",
                "compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 32}",
                "compression = {'enabled': false}",
                "caching = {'keys': 'ALL', 'rows_per_partition': '10'}",
                "bloom_filter_fp_chance = 0.02",
                "speculative_retry = '99p'",
                "read_repair = 'NONE'",
                "no_such_option = 1",
                "id = 5132b130-ae79-11e4-ab27-0800200c9a66",
            ])
            .to_owned()
    }

    fn alter_table(&mut self) -> String {
        let table = self.table();
        let name = self.random.pick(&["v", "w", "x", "y", "z"]);
        match self.random.below(10) {
            0..3 => format!(
                "ALTER TABLE {table} ADD {}{name} {}",
                self.perhaps("IF NOT EXISTS "),
                self.random.pick(TYPES)
            ),
            3 => format!(
                "ALTER TABLE {table} ADD (x {}, y {})",
                self.random.pick(TYPES),
                self.random.pick(TYPES)
            ),
            4 | 5 => format!("ALTER TABLE {table} DROP {}{name}", self.perhaps("IF EXISTS ")),
            6 => format!(
                "ALTER TABLE {table} RENAME {} TO {}",
                self.random.pick(&["k", "c", "v"]),
                self.random.pick(&["kk", "cc"])
            ),
            7 => format!(
                "ALTER TABLE {}{table} WITH {}",
                self.perhaps("IF EXISTS "),
                self.option()
            ),
            8 => format!("ALTER TABLE {table} ALTER v TYPE text"),
            _ => format!("ALTER TABLE {table} WITH {} AND {}", self.option(), self.option()),
        }
    }

    fn user_type(&mut self) -> String {
        let name = format!("forge.y{}", self.random.below(3));
        match self.random.below(6) {
            0..3 => format!(
                "CREATE TYPE {}{name} (a int, b {})",
                self.perhaps("IF NOT EXISTS "),
                self.random
                    .pick(&["text", "frozen<set<int>>", "frozen<y0>", "counter"])
            ),
            3 => format!(
                "ALTER TYPE {name} ADD {}c{} text",
                self.perhaps("IF NOT EXISTS "),
                self.random.below(3)
            ),
            4 => format!("ALTER TYPE {name} RENAME a TO aa AND b TO bb"),
            _ => format!("DROP TYPE {}{name}", self.perhaps("IF EXISTS ")),
        }
    }

    fn create_index(&mut self) -> String {
        let name = match self.random.below(3) {
            0 => String::new(),
            _ => format!("i{} ", self.random.below(4)),
        };
        let target = self.random.pick(&[
            "v",
            "w",
            "c",
            "s",
            "k",
            "keys(w)",
            "values(w)",
            "entries(v)",
            "full(v)",
            "x",
            "d",
        ]);
        let exists = self.perhaps("IF NOT EXISTS ");
        let table = self.table();
        match self.random.below(4) {
            0 => format!(
                "CREATE CUSTOM INDEX {exists}{name}ON {table} ({target}) USING 'StorageAttachedIndex'"
            ),
            1 => format!(
                "CREATE INDEX {exists}{name}ON {table} ({target}) USING 'sai' WITH OPTIONS = {{'ascii': 'true'}}"
            ),
            2 => format!("CREATE INDEX {exists}{name}ON {table} ({target}) USING 'sai'"),
            _ => format!("CREATE INDEX {exists}{name}ON {table} ({target})"),
        }
    }

    fn view(&mut self) -> String {
        let name = format!("forge.m{}", self.random.below(2));
        match self.random.below(5) {
            0..3 => format!(
                "CREATE MATERIALIZED VIEW {}{name} AS SELECT {} FROM {} WHERE k IS NOT NULL AND c IS NOT NULL AND d IS NOT NULL PRIMARY KEY {}{}",
                self.perhaps("IF NOT EXISTS "),
                self.random.pick(&["*", "k, c, d", "k, c, d, v"]),
                self.table(),
                self.random.pick(&["(c, k, d)", "((c, d), k)", "(d, c, k)"]),
                self.random.pick(&["", " WITH comment = 'seen from c'"]),
            ),
            3 => format!(
                "ALTER MATERIALIZED VIEW {}{name} WITH gc_grace_seconds = 7200",
                self.perhaps("IF EXISTS ")
            ),
            _ => format!("DROP MATERIALIZED VIEW {}{name}", self.perhaps("IF EXISTS ")),
        }
    }

    fn function(&mut self) -> String {
        let name = format!("forge.f{}", self.random.below(2));
        let or = self.random.pick(&["", "OR REPLACE "]);
        let exists = if or.is_empty() {
            self.perhaps("IF NOT EXISTS ")
        } else {
            ""
        };
        match self.random.below(5) {
            0..3 => format!(
                "CREATE {or}FUNCTION {exists}{name} (a int, b int) {} ON NULL INPUT RETURNS int {}LANGUAGE java AS {}",
                self.random.pick(&["CALLED", "RETURNS NULL"]),
                self.random
                    .pick(&["", "DETERMINISTIC ", "DETERMINISTIC MONOTONIC "]),
                self.random
                    .pick(&["$$return a;$$", "'return a + b;'", "$$ return 1 + ; $$"])
            ),
            3 => format!("DROP FUNCTION {}{name} (int, int)", self.perhaps("IF EXISTS ")),
            _ => format!("DROP FUNCTION {}{name}", self.perhaps("IF EXISTS ")),
        }
    }

    fn aggregate(&mut self) -> String {
        match self.random.below(3) {
            0 => format!("DROP AGGREGATE {}forge.g0", self.perhaps("IF EXISTS ")),
            _ => format!(
                "CREATE {}AGGREGATE forge.g0 (int) SFUNC f0 STYPE int{}",
                self.perhaps("OR REPLACE "),
                self.random
                    .pick(&["", " INITCOND 0", " FINALFUNC f1 INITCOND null"])
            ),
        }
    }

    fn keyspace(&mut self) -> String {
        match self.random.below(4) {
            0 => format!(
                "CREATE KEYSPACE {}forge_{} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}",
                self.perhaps("IF NOT EXISTS "),
                self.random.below(2)
            ),
            1 => format!(
                "DROP KEYSPACE {}forge_{}",
                self.perhaps("IF EXISTS "),
                self.random.below(2)
            ),
            _ => format!(
                "ALTER KEYSPACE {}forge WITH durable_writes = {}",
                self.perhaps("IF EXISTS "),
                self.random.pick(&["true", "false"])
            ),
        }
    }

    /// What is not about tables.
    fn other(&mut self) -> String {
        self.random
            .pick(&[
                "CREATE ROLE IF NOT EXISTS reader WITH PASSWORD = 'secret' AND LOGIN = true",
                "ALTER ROLE reader WITH SUPERUSER = false",
                "DROP ROLE IF EXISTS reader",
                "GRANT SELECT ON KEYSPACE forge TO reader",
                "GRANT SELECT PERMISSION ON TABLE forge.t0 TO reader",
                "REVOKE ALL PERMISSIONS ON ALL KEYSPACES FROM reader",
                "LIST ALL PERMISSIONS OF reader NORECURSIVE",
                "LIST ROLES OF reader",
                "GRANT writer TO reader",
                "CREATE USER u WITH PASSWORD 'p' NOSUPERUSER",
                "ALTER USER IF EXISTS u WITH HASHED PASSWORD 'x'",
                "LIST USERS",
                "CREATE TRIGGER tr ON forge.t0 USING 'some.Class'",
                "DROP TRIGGER IF EXISTS tr ON forge.t0",
                "USE lab",
                "USE \"lab\";",
                "DESCRIBE KEYSPACES",
                "DESCRIBE TABLE lab.samples WITH INTERNALS",
                "DESC FULL SCHEMA",
                "ADD IDENTITY 'spiffe://x' TO ROLE reader",
                "DROP IDENTITY IF EXISTS 'spiffe://x'",
                "CREATE GENERATED ROLE x",
                "GRANT EXECUTE ON FUNCTION forge.f0(int, int) TO reader",
                "GRANT UNMASK ON TABLE forge.t0 TO reader",
                "LIST SUPERUSERS",
            ])
            .to_owned()
    }
}
