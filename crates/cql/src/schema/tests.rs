//! Schemas from text and rows, and back to text.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use crate::syntax;
use cqlens_proto::types::CqlType;

use super::rows::{ColumnRow, IndexRow, KeyspaceRow, Rows, TableRow, TypeRow, ViewRow};
use super::{
    ColumnKind, IndexClass, IndexTargetKind, OptionValue, Order, Schema, SchemaErrorKind, SchemaErrors,
};

/// As `DESCRIBE SCHEMA` prints it, comments, ids and all.
const DESCRIBED: &str = r#"
CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': '3'}  AND durable_writes = false;

CREATE TYPE shop.address (
    street text,
    zip int
);

CREATE TYPE shop.person (
    name text,
    home frozen<address>
);

CREATE TABLE shop.orders (
    shop text,
    day date,
    at timestamp,
    "Id" int,
    buyer frozen<person>,
    lines map<text, frozen<list<int>>>,
    owner text static,
    total decimal,
    where_ varchar,
    place vector<float, 3>,
    PRIMARY KEY ((shop, day), at, "Id")
) WITH ID = 0a1b2c3d-0000-1000-8000-000000000001
    AND CLUSTERING ORDER BY (at DESC, "Id" ASC)
    AND additional_write_policy = '99p'
    AND bloom_filter_fp_chance = 0.01
    AND caching = {'keys': 'ALL', 'rows_per_partition': 'NONE'}
    AND comment = 'Q1: orders of a shop''s day'
    AND compaction = {'class': 'org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy', 'compaction_window_size': '1'}
    AND default_time_to_live = 86400
    AND gc_grace_seconds = 3600
    AND cdc = false;

CREATE INDEX orders_lines ON shop.orders (keys(lines));
CREATE CUSTOM INDEX orders_total ON shop.orders (total) USING 'StorageAttachedIndex';
CREATE CUSTOM INDEX orders_owner ON shop.orders (owner) USING 'org.apache.cassandra.index.sasi.SASIIndex' WITH OPTIONS = {'mode': 'CONTAINS'};

CREATE MATERIALIZED VIEW shop.orders_by_id AS
    SELECT shop, day, at, "Id", total
    FROM shop.orders
    WHERE shop IS NOT NULL AND day IS NOT NULL AND at IS NOT NULL AND "Id" IS NOT NULL
    PRIMARY KEY ("Id", shop, day, at)
 WITH CLUSTERING ORDER BY (shop ASC, day DESC, at ASC)
    AND comment = '';

/*
Warning: Keyspace system_views is a virtual keyspace and cannot be recreated with CQL.
VIRTUAL KEYSPACE system_views;
*/
"#;

fn described() -> Schema {
    Schema::from_cql(DESCRIBED).unwrap()
}

fn apply(schema: &mut Schema, text: &str) -> Result<(), SchemaErrorKind> {
    schema
        .apply(&syntax::parse(text).unwrap(), Some("shop"))
        .map_err(|error| error.kind)
}

#[test]
fn what_describe_schema_prints_is_read() {
    let schema = described();
    let orders = schema.table("shop", "orders").unwrap();
    let names = |columns: &[super::Column]| {
        columns
            .iter()
            .map(|column| column.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(orders.partition_key()), ["shop", "day"]);
    assert_eq!(names(orders.clustering()), ["at", "Id"]);
    assert_eq!(
        orders.column("at").unwrap().kind,
        ColumnKind::Clustering(Order::Descending)
    );
    assert_eq!(orders.column("owner").unwrap().kind, ColumnKind::Static);
    assert_eq!(orders.comment(), "Q1: orders of a shop's day");
    assert_eq!(
        (orders.default_time_to_live(), orders.gc_grace_seconds()),
        (86_400, 3_600)
    );
    assert!(!orders.options.contains_key("id"));
    assert!(!schema.keyspaces["shop"].durable_writes);
    let view = schema.table("shop", "orders_by_id").unwrap();
    assert_eq!(view.base(), Some("orders"));
    assert_eq!(names(view.partition_key()), ["Id"]);
    assert!(view.column("day").unwrap().is_descending());
    assert!(view.column("owner").is_none());
}

#[test]
fn indexes_are_known_by_class_and_target() {
    let schema = described();
    let indexes = &schema.table("shop", "orders").unwrap().indexes;
    assert_eq!(indexes["orders_lines"].targets[0].kind, IndexTargetKind::Keys);
    assert_eq!(indexes["orders_lines"].class, IndexClass::Legacy);
    assert_eq!(indexes["orders_total"].class, IndexClass::Sai);
    assert_eq!(indexes["orders_owner"].class, IndexClass::Sasi);
    assert_eq!(indexes["orders_owner"].options["mode"], "CONTAINS");
}

#[test]
fn types_are_resolved_through_definitions() {
    let schema = described();
    let keyspace = &schema.keyspaces["shop"];
    let buyer = &keyspace.tables["orders"].column("buyer").unwrap().data_type;
    let CqlType::Udt(person) = keyspace.resolve(buyer) else {
        unreachable!("a user-defined type")
    };
    let CqlType::Udt(address) = &person.fields[1].1 else {
        unreachable!("a user-defined type")
    };
    assert_eq!(address.fields[1], ("zip".to_owned(), CqlType::Int));
}

#[test]
fn a_type_that_contains_itself_is_resolved_as_far_as_it_goes() {
    let mut text = "CREATE KEYSPACE k WITH replication = {}; CREATE TYPE k.t0 (a int);".to_owned();
    for level in 1..40 {
        let inner = level - 1;
        text.push_str(&format!(
            "CREATE TYPE k.t{level} (a frozen<t{inner}>, b frozen<t{inner}>);"
        ));
    }
    text.push_str("CREATE TYPE k.own (a frozen<own>);");
    let schema = Schema::from_cql(&text).unwrap();
    for name in ["t39", "own"] {
        let resolved = schema.keyspaces["k"].resolve(&super::DataType::UserDefined(name.into()));
        assert!(matches!(resolved, CqlType::Udt(_)), "{name}");
    }
}

#[test]
fn a_printed_schema_is_read_as_the_same_schema() {
    let schema = described();
    assert_eq!(Schema::from_cql(&schema.to_cql()).unwrap(), schema);
    let system = super::system::keyspaces().clone();
    let system = Schema { keyspaces: system };
    assert_eq!(Schema::from_cql(&system.to_cql()).unwrap(), system);
}

#[test]
fn names_are_quoted_where_they_must_be() {
    assert_eq!(super::quote("plain_1"), "plain_1");
    assert_eq!(super::quote("Mixed"), "\"Mixed\"");
    assert_eq!(super::quote("sp ace"), "\"sp ace\"");
    assert_eq!(super::quote("q\"uote"), "\"q\"\"uote\"");
    assert_eq!(super::quote("select"), "\"select\"");
    assert_eq!(super::quote("1st"), "\"1st\"");
    assert_eq!(super::quote(""), "\"\"");
}

#[test]
fn columns_come_go_and_change_their_names() {
    let mut schema = described();
    apply(&mut schema, "ALTER TABLE orders ADD (note text, rank int)").unwrap();
    apply(&mut schema, "ALTER TABLE orders DROP total").unwrap();
    apply(&mut schema, "ALTER TABLE orders RENAME \"Id\" TO id").unwrap();
    apply(
        &mut schema,
        "ALTER TABLE orders WITH comment = 'new' AND gc_grace_seconds = 1",
    )
    .unwrap();
    let orders = schema.table("shop", "orders").unwrap();
    assert!(orders.column("note").is_some() && orders.column("total").is_none());
    assert_eq!(orders.clustering()[1].name, "id");
    assert_eq!((orders.comment(), orders.gc_grace_seconds()), ("new", 1));
    assert_eq!(
        schema.table("shop", "orders_by_id").unwrap().partition_key()[0].name,
        "id"
    );
    let error = apply(&mut schema, "ALTER TABLE orders ADD note int").unwrap_err();
    assert_eq!(error, SchemaErrorKind::AlreadyExists("note".into()));
    apply(&mut schema, "ALTER TABLE orders ADD IF NOT EXISTS note int").unwrap();
}

#[test]
fn a_view_of_all_columns_gets_new_ones_too() {
    let mut schema = described();
    let view = "CREATE MATERIALIZED VIEW by_day AS SELECT * FROM orders WHERE shop IS NOT NULL AND day IS NOT NULL \
                AND at IS NOT NULL AND \"Id\" IS NOT NULL PRIMARY KEY (day, shop, at, \"Id\")";
    apply(&mut schema, view).unwrap();
    apply(&mut schema, "ALTER TABLE orders ADD note text").unwrap();
    assert!(schema.table("shop", "by_day").unwrap().column("note").is_some());
    assert!(
        schema
            .table("shop", "orders_by_id")
            .unwrap()
            .column("note")
            .is_none()
    );
    assert_eq!(Schema::from_cql(&schema.to_cql()).unwrap(), schema);
}

#[test]
fn types_are_altered_and_dropped() {
    let mut schema = described();
    apply(&mut schema, "ALTER TYPE address ADD country text").unwrap();
    apply(&mut schema, "ALTER TYPE address RENAME zip TO code").unwrap();
    let fields = &schema.keyspaces["shop"].types["address"].fields;
    assert_eq!(
        fields.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["street", "code", "country"]
    );
    apply(&mut schema, "DROP TYPE person").unwrap();
    assert_eq!(
        apply(&mut schema, "DROP TYPE person"),
        Err(SchemaErrorKind::TypeUnknown("person".into()))
    );
    apply(&mut schema, "DROP TYPE IF EXISTS person").unwrap();
}

#[test]
fn an_index_without_a_name_gets_cassandra_s() {
    let mut schema = described();
    apply(&mut schema, "CREATE INDEX ON orders (total)").unwrap();
    apply(&mut schema, "CREATE INDEX ON orders (lines)").unwrap();
    apply(&mut schema, "CREATE INDEX ON orders (total)").unwrap();
    let indexes = &schema.table("shop", "orders").unwrap().indexes;
    assert!(indexes.contains_key("orders_total_idx") && indexes.contains_key("orders_total_idx_1"));
    assert_eq!(
        indexes["orders_lines_idx"].targets[0].kind,
        IndexTargetKind::Values
    );
    apply(&mut schema, "DROP INDEX orders_total_idx").unwrap();
    assert!(
        !schema
            .table("shop", "orders")
            .unwrap()
            .indexes
            .contains_key("orders_total_idx")
    );
}

#[test]
fn dropping_takes_everything_along() {
    let mut schema = described();
    apply(&mut schema, "DROP MATERIALIZED VIEW orders_by_id").unwrap();
    apply(&mut schema, "DROP TABLE orders").unwrap();
    assert_eq!(
        apply(&mut schema, "DROP TABLE orders"),
        Err(SchemaErrorKind::TableUnknown("orders".into()))
    );
    apply(&mut schema, "DROP KEYSPACE shop").unwrap();
    assert_eq!(schema, Schema::default());
}

#[test]
fn use_says_whose_names_follow_and_errors_say_where() {
    let text = "CREATE KEYSPACE a WITH replication = {};\nUSE a;\nCREATE TABLE t (k int PRIMARY KEY);\nCREATE TABLE b.t (k int PRIMARY KEY);\nCREATE TABEL x;\nSELECT * FROM t;\nCREATE TABLE u (k int, PRIMARY KEY (z));";
    let (schema, errors) = Schema::read_cql(text);
    assert!(schema.table("a", "t").is_some());
    let places: Vec<&str> = errors.first.iter().map(|error| error.span.of(text)).collect();
    assert_eq!(places, ["b.t", "TABEL", "z"]);
    assert_eq!(errors.first[0].kind, SchemaErrorKind::KeyspaceUnknown("b".into()));
    assert!(matches!(errors.first[1].kind, SchemaErrorKind::Syntax(_)));
    assert_eq!(errors.first[2].kind, SchemaErrorKind::ColumnUnknown("z".into()));
}

/// The attack: two bytes of a script would become an error of dozens each.
#[test]
fn of_mistakes_without_end_the_first_ones_are_kept_and_all_are_counted() {
    let (_, errors) = Schema::read_cql(&"a;".repeat(10_000));
    assert_eq!((errors.first.len(), errors.count), (SchemaErrors::MOST, 10_000));
}

#[test]
fn statements_that_define_nothing_are_no_definitions() {
    let error = apply(&mut described(), "SELECT * FROM orders").unwrap_err();
    assert_eq!(error, SchemaErrorKind::NotADefinition("select"));
}

fn column(table: &str, name: &str, kind: &str, position: i32, order: &str, data_type: &str) -> ColumnRow {
    ColumnRow {
        keyspace: "shop".into(),
        table: table.into(),
        name: name.into(),
        clustering_order: order.into(),
        kind: kind.into(),
        position,
        data_type: data_type.into(),
    }
}

#[test]
fn rows_of_system_schema_give_the_schema_that_the_text_gives() {
    let text = |from: &[(&str, &str)]| -> BTreeMap<String, String> {
        from.iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    let comment = |comment: &str| BTreeMap::from([("comment".to_owned(), OptionValue::Text(comment.into()))]);
    let rows = Rows {
        keyspaces: vec![KeyspaceRow {
            name: "shop".into(),
            durable_writes: true,
            replication: text(&[("class", "SimpleStrategy")]),
            tablets: true,
        }],
        types: vec![TypeRow {
            keyspace: "shop".into(),
            name: "address".into(),
            field_names: vec!["zip".into()],
            field_types: vec!["int".into()],
        }],
        tables: vec![TableRow {
            keyspace: "shop".into(),
            name: "orders".into(),
            flags: BTreeSet::from(["compound".to_owned()]),
            options: comment("orders"),
        }],
        views: vec![ViewRow {
            keyspace: "shop".into(),
            name: "by_at".into(),
            base: "orders".into(),
            include_all_columns: true,
            where_clause: "at IS NOT NULL AND id IS NOT NULL AND \"Shop\" IS NOT NULL".into(),
            options: BTreeMap::new(),
        }],
        columns: vec![
            column(
                "orders",
                "to",
                "regular",
                -1,
                "none",
                "frozen<map<text, address>>",
            ),
            column("orders", "id", "clustering", 1, "asc", "int"),
            column("orders", "at", "clustering", 0, "desc", "timestamp"),
            column("orders", "Shop", "partition_key", 0, "none", "text"),
            column(
                "orders",
                "owner",
                "static",
                -1,
                "none",
                "list<frozen<tuple<int, text>>>",
            ),
            column("by_at", "at", "partition_key", 0, "none", "timestamp"),
            column("by_at", "Shop", "clustering", 0, "asc", "text"),
            column("by_at", "id", "clustering", 1, "asc", "int"),
            column("by_at", "to", "regular", -1, "none", "frozen<map<text, address>>"),
            column("gone", "k", "partition_key", 0, "none", "int"),
        ],
        indexes: vec![
            IndexRow {
                keyspace: "shop".into(),
                table: "orders".into(),
                name: "i".into(),
                kind: "COMPOSITES".into(),
                options: text(&[("target", "full(\"to\")")]),
            },
            IndexRow {
                keyspace: "shop".into(),
                table: "orders".into(),
                name: "j".into(),
                kind: "CUSTOM".into(),
                options: text(&[
                    ("target", "id"),
                    (
                        "class_name",
                        "org.apache.cassandra.index.sai.StorageAttachedIndex",
                    ),
                ]),
            },
        ],
        functions: vec![("shop".into(), "f".into())],
        aggregates: Vec::new(),
    };
    let (mut schema, errors) = Schema::from_rows(rows);
    assert_eq!(errors, []);
    assert!(schema.keyspaces.get_mut("shop").unwrap().functions.remove("f"));
    let expected =
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy'} AND tablets = {'enabled': true};
        CREATE TYPE shop.address (zip int);
        CREATE TABLE shop.orders (\"Shop\" text, at timestamp, id int, \"to\" frozen<map<text, address>>,
            owner list<frozen<tuple<int, text>>> static, PRIMARY KEY (\"Shop\", at, id))
            WITH CLUSTERING ORDER BY (at DESC, id ASC) AND comment = 'orders';
        CREATE INDEX i ON shop.orders (full(\"to\"));
        CREATE CUSTOM INDEX j ON shop.orders (id) USING 'sai';
        CREATE MATERIALIZED VIEW shop.by_at AS SELECT * FROM shop.orders
            WHERE at IS NOT NULL AND id IS NOT NULL AND \"Shop\" IS NOT NULL PRIMARY KEY (at, \"Shop\", id);";
    assert_eq!(schema, Schema::from_cql(expected).unwrap());
    assert_eq!(Schema::from_cql(&schema.to_cql()).unwrap(), schema);
}

#[test]
fn custom_indexes_name_several_columns_or_none() {
    let index = |name: &str, target: &str| IndexRow {
        keyspace: "shop".into(),
        table: "orders".into(),
        name: name.into(),
        kind: "CUSTOM".into(),
        options: [("target", target), ("class_name", "com.example.Index")]
            .map(|(option, value)| (option.to_owned(), value.to_owned()))
            .into(),
    };
    let rows = Rows {
        keyspaces: vec![KeyspaceRow {
            name: "shop".into(),
            durable_writes: true,
            replication: BTreeMap::new(),
            tablets: false,
        }],
        tables: vec![TableRow {
            keyspace: "shop".into(),
            name: "orders".into(),
            flags: ["compound".to_owned()].into(),
            options: BTreeMap::new(),
        }],
        columns: vec![
            column("orders", "id", "partition_key", 0, "none", "int"),
            column("orders", "a,b", "regular", -1, "none", "int"),
        ],
        // The second one is like that on `system.paxos` of Cassandra 4.1 and later.
        indexes: vec![index("several", "id, \"a,b\""), index("whole", "")],
        ..Rows::default()
    };
    let (schema, errors) = Schema::from_rows(rows);
    assert_eq!(errors, []);
    let expected = "CREATE KEYSPACE shop WITH replication = {};
        CREATE TABLE shop.orders (id int PRIMARY KEY, \"a,b\" int);
        CREATE CUSTOM INDEX several ON shop.orders (id, \"a,b\") USING 'com.example.Index';
        CREATE CUSTOM INDEX whole ON shop.orders () USING 'com.example.Index';";
    assert_eq!(schema, Schema::from_cql(expected).unwrap());
    assert_eq!(Schema::from_cql(&schema.to_cql()).unwrap(), schema);
}

#[test]
fn hidden_columns_of_compact_tables_stay_hidden() {
    let flags = |flags: &[&str]| flags.iter().map(|flag| (*flag).to_owned()).collect();
    let table = |name: &str, set: &[&str]| TableRow {
        keyspace: "shop".into(),
        name: name.into(),
        flags: flags(set),
        options: BTreeMap::new(),
    };
    let rows = Rows {
        keyspaces: vec![KeyspaceRow {
            name: "shop".into(),
            durable_writes: true,
            replication: BTreeMap::new(),
            tablets: false,
        }],
        tables: vec![table("s", &[]), table("d", &["dense", "compound"])],
        columns: vec![
            column("s", "k", "partition_key", 0, "none", "int"),
            column("s", "a", "static", -1, "none", "int"),
            column("s", "column1", "clustering", 0, "asc", "text"),
            column("s", "value", "regular", -1, "none", "blob"),
            column("d", "k", "partition_key", 0, "none", "int"),
            column("d", "c", "clustering", 0, "asc", "int"),
            column("d", "value", "regular", -1, "none", "empty"),
        ],
        ..Rows::default()
    };
    let (schema, errors) = Schema::from_rows(rows);
    assert_eq!(errors, []);
    let expected = "CREATE KEYSPACE shop WITH replication = {};
        CREATE TABLE shop.s (k int PRIMARY KEY, a int) WITH COMPACT STORAGE;
        CREATE TABLE shop.d (k int, c int, PRIMARY KEY (k, c)) WITH COMPACT STORAGE;";
    assert_eq!(schema, Schema::from_cql(expected).unwrap());
    assert!(schema.table("shop", "s").unwrap().is_static_compact());
}

#[test]
fn a_type_that_is_not_understood_is_said_and_kept_by_name() {
    let rows = Rows {
        keyspaces: vec![KeyspaceRow {
            name: "shop".into(),
            durable_writes: true,
            replication: BTreeMap::new(),
            tablets: false,
        }],
        tables: vec![TableRow {
            keyspace: "shop".into(),
            name: "t".into(),
            ..TableRow::default()
        }],
        columns: vec![column("t", "k", "partition_key", 0, "none", "list<")],
        ..Rows::default()
    };
    let (schema, errors) = Schema::from_rows(rows);
    assert_eq!(errors[0].kind, SchemaErrorKind::TypeNotUnderstood("list<".into()));
    assert_eq!(
        schema.table("shop", "t").unwrap().partition_key()[0].data_type,
        super::DataType::Custom("list<".into())
    );
}

#[test]
fn an_index_class_is_known_by_alias_and_by_java_name() {
    assert_eq!(IndexClass::of("SAI"), IndexClass::Sai);
    assert_eq!(
        IndexClass::of("org.apache.cassandra.index.sai.StorageAttachedIndex"),
        IndexClass::Sai
    );
    assert_eq!(
        IndexClass::of("org.apache.cassandra.index.sasi.SASIIndex"),
        IndexClass::Sasi
    );
    assert_eq!(IndexClass::of("a.B"), IndexClass::Custom("a.B".into()));
}

#[test]
fn the_tables_of_the_server_itself_are_known() {
    let schema = Schema::default();
    let peers = schema.table("system", "peers_v2").unwrap();
    assert_eq!(peers.partition_key()[0].name, "peer");
    assert_eq!(peers.clustering()[0].name, "peer_port");
    assert!(schema.table("shop", "peers_v2").is_none());
}

#[test]
fn a_column_is_dropped_however_many_were_before() {
    let mut schema = Schema::from_cql(
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
         CREATE TABLE ks.t (k int PRIMARY KEY);",
    )
    .unwrap();
    let small = schema.clone().cut_to(usize::MAX).0;
    for number in 0..1_100 {
        for change in [format!("ADD c{number} int"), format!("DROP c{number}")] {
            let text = format!("ALTER TABLE ks.t {change}");
            schema.apply(&syntax::parse(&text).unwrap(), None).unwrap();
        }
    }
    let table = schema.table("ks", "t").unwrap();
    assert_eq!((table.columns.len(), table.dropped.len()), (1, 1_000));
    assert!(
        schema.clone().cut_to(usize::MAX).0 > small + 1_000 * 64,
        "they take memory"
    );
    let like = syntax::parse("CREATE TABLE ks.new LIKE ks.t").unwrap();
    schema.apply(&like, None).unwrap();
    assert!(schema.table("ks", "new").unwrap().dropped.is_empty());
}
