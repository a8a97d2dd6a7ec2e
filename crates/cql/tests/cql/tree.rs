//! What the tree of a statement says, as a planner reads it.

use cqlens_cql::syntax::ast::{
    AssignmentOperation, BatchKind, Body, Comparand, CreateTable, DeletionTarget, Direction, If,
    IndexTargetKind, InsertSource, JsonDefault, LiteralKind, Mask, MetadataFunction, Modification,
    NativeType, PropertyValue, Relation, RelationOperator, Select, Selection, Statement, Subject,
    TableChange, Term, TypeName, Update,
};
use cqlens_cql::syntax::{self, Span};

#[track_caller]
fn parse(text: &str) -> Statement<'_> {
    syntax::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[track_caller]
fn select(text: &str) -> Select<'_> {
    let Body::Select(select) = parse(text).body else {
        panic!("{text}")
    };
    select
}

#[track_caller]
fn update(text: &str) -> Update<'_> {
    let Body::Update(update) = parse(text).body else {
        panic!("{text}")
    };
    update
}

#[track_caller]
fn table(text: &str) -> CreateTable<'_> {
    let Body::CreateTable(table) = parse(text).body else {
        panic!("{text}")
    };
    table
}

/// The relations of `SELECT * FROM t WHERE …`.
fn relations(text: &str) -> Vec<Relation<'_>> {
    select(text).where_clause.relations
}

fn names(columns: &[syntax::ast::Name<'_>]) -> Vec<String> {
    columns.iter().map(ToString::to_string).collect()
}

/// Kind and text of a constant.
fn literal<'text>(term: &Term<'text>) -> (LiteralKind, String) {
    let Term::Literal(literal) = term else {
        panic!("{term:?}")
    };
    (literal.kind, literal.decoded().into_owned())
}

#[test]
fn names_are_effective_names() {
    let select = select("SELECT Foo, \"Foo\", \"a\"\"b\" FROM Ks.\"T\"");
    let Selection::Selectors(selectors) = &select.selection else {
        panic!()
    };
    let columns: Vec<&str> = selectors
        .iter()
        .map(|selector| match &selector.term {
            Term::Column(name) => name.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(columns, ["foo", "Foo", "a\"b"]);
    assert_eq!(select.table.keyspace.as_ref().unwrap(), &"ks");
    assert_eq!(select.table.name, "T");
    assert_eq!(select.table.keyspace_or(Some("other")), Some("ks"));
}

#[test]
fn literals_keep_their_kind_and_give_their_text() {
    let text = "SELECT * FROM t WHERE k IN ('it''s', $$raw '$$, -1, 1.5e3, TRUE, 1h, 0xCAFE, NaN, \
                123e4567-e89b-12d3-a456-426655440000)";
    let Comparand::List(terms) = &relations(text)[0].comparand else {
        panic!()
    };
    let found: Vec<(LiteralKind, String)> = terms.iter().map(literal).collect();
    let expected = [
        (LiteralKind::String, "it's"),
        (LiteralKind::String, "raw '"),
        (LiteralKind::Integer, "-1"),
        (LiteralKind::Float, "1.5e3"),
        (LiteralKind::Boolean, "TRUE"),
        (LiteralKind::Duration, "1h"),
        (LiteralKind::Hex, "0xCAFE"),
        (LiteralKind::Float, "NaN"),
        (LiteralKind::Uuid, "123e4567-e89b-12d3-a456-426655440000"),
    ];
    assert_eq!(found, expected.map(|(kind, text)| (kind, text.to_owned())));
}

#[test]
fn bind_markers_are_numbered_in_the_order_of_the_text() {
    let statement = parse("SELECT a[?] FROM t WHERE k IN (?, :x) AND c = :X AND d = {'a': ?} LIMIT ?");
    let markers: Vec<(usize, Option<String>)> = statement
        .bind_markers
        .iter()
        .map(|marker| (marker.index, marker.name.as_ref().map(ToString::to_string)))
        .collect();
    let x = Some("x".to_owned());
    assert_eq!(
        markers,
        [(0, None), (1, None), (2, x.clone()), (3, x), (4, None), (5, None)]
    );
    let Body::Select(select) = &statement.body else {
        panic!()
    };
    let Some(Term::BindMarker(limit)) = &select.limit else {
        panic!()
    };
    assert_eq!(limit.index, 5);
}

#[test]
fn the_markers_of_a_batch_are_numbered_through() {
    let text = "BEGIN BATCH INSERT INTO t (a) VALUES (?) UPDATE t SET a = ? WHERE k = ? APPLY BATCH";
    let statement = parse(text);
    assert_eq!(statement.bind_markers.len(), 3);
    let Body::Batch(batch) = &statement.body else {
        panic!()
    };
    let Modification::Update(update) = &batch.statements[1] else {
        panic!()
    };
    let Comparand::One(Term::BindMarker(marker)) = &update.where_clause.relations[0].comparand else {
        panic!()
    };
    assert_eq!(marker.index, 2);
    assert_eq!(marker.span, Span::new(70, 71));
}

#[test]
fn every_operator_is_told_apart() {
    let text = "SELECT * FROM t WHERE a = 1 AND b != 1 AND c < 1 AND d <= 1 AND e > 1 AND f >= 1 AND g IN (1) AND h LIKE 'x' \
                AND i CONTAINS 1 AND j CONTAINS KEY 1 AND k IS NOT NULL AND l NOT IN (1) AND m BETWEEN 1 AND 2";
    let operators: Vec<RelationOperator> = relations(text).iter().map(|relation| relation.operator).collect();
    use RelationOperator as Operator;
    assert_eq!(
        operators,
        [
            Operator::Equal,
            Operator::NotEqual,
            Operator::LessThan,
            Operator::LessOrEqual,
            Operator::GreaterThan,
            Operator::GreaterOrEqual,
            Operator::In,
            Operator::Like,
            Operator::Contains,
            Operator::ContainsKey,
            Operator::IsNotNull,
            Operator::NotIn,
            Operator::Between,
        ]
    );
}

#[test]
fn a_list_after_in_is_its_terms_or_one_marker() {
    let found = relations(
        "SELECT * FROM t WHERE a IN (1, ?, f()) AND b IN ? AND c IN () AND (d, e) IN ((1, 2)) AND (d, e) IN (?)",
    );
    let Comparand::List(terms) = &found[0].comparand else {
        panic!()
    };
    assert_eq!(terms.len(), 3);
    assert!(matches!(&found[1].comparand, Comparand::Marker(marker) if marker.index == 1));
    assert_eq!(found[2].comparand, Comparand::List(Vec::new()));
    let Comparand::List(tuples) = &found[3].comparand else {
        panic!()
    };
    assert!(matches!(&tuples[0], Term::Tuple { items, .. } if items.len() == 2));
    let Comparand::List(markers) = &found[4].comparand else {
        panic!()
    };
    assert!(matches!(&markers[0], Term::BindMarker(_)));
}

#[test]
fn subjects_are_columns_tuples_tokens_and_elements() {
    let found = relations(
        "SELECT * FROM t WHERE a = 1 AND (b, c) > (1, 2) AND token(d, e) <= ? AND m['k'] = 1 AND (f = 2)",
    );
    assert!(matches!(&found[0].subject, Subject::Column(column) if *column == "a"));
    assert!(matches!(&found[1].subject, Subject::Columns(columns) if names(columns) == ["b", "c"]));
    assert!(matches!(&found[2].subject, Subject::Token(columns) if names(columns) == ["d", "e"]));
    assert!(
        matches!(&found[3].subject, Subject::Element(column, key) if *column == "m" && literal(key).1 == "k")
    );
    assert_eq!(names(found[2].subject.columns()), ["d", "e"]);
    assert!(matches!(&found[4].subject, Subject::Column(column) if *column == "f"));
}

#[test]
fn spans_point_into_the_text() {
    let text = "SELECT * FROM t WHERE a = 1 AND b IN (1, 2) ALLOW FILTERING;";
    let statement = parse(text);
    assert_eq!(
        statement.span.of(text),
        "SELECT * FROM t WHERE a = 1 AND b IN (1, 2) ALLOW FILTERING"
    );
    let Body::Select(select) = &statement.body else {
        panic!()
    };
    assert_eq!(select.where_clause.relations[1].span.of(text), "b IN (1, 2)");
    assert_eq!(select.table.span().of(text), "t");
}

#[test]
fn custom_index_expressions_stand_beside_the_relations() {
    let clause = select("SELECT * FROM t WHERE expr(idx, 'q') AND a = 1").where_clause;
    assert_eq!(clause.relations.len(), 1);
    assert_eq!(clause.custom_index_expressions[0].index.name, "idx");
    assert_eq!(literal(&clause.custom_index_expressions[0].value).1, "q");
}

#[test]
fn the_clauses_of_a_select_are_kept() {
    let select = select(
        "SELECT JSON DISTINCT k FROM t GROUP BY k, f(c) ORDER BY a, v ANN OF [1.0] DESC PER PARTITION LIMIT 2 LIMIT :n \
         ALLOW FILTERING",
    );
    assert!(select.json && select.distinct && select.allow_filtering && !select.bypass_cache);
    assert_eq!(select.group_by.len(), 2);
    assert_eq!(select.order_by[0].direction, Direction::Ascending);
    assert_eq!(select.order_by[1].direction, Direction::Descending);
    assert!(matches!(select.order_by[1].ann_of, Some(Term::List { .. })));
    assert_eq!(literal(select.per_partition_limit.as_ref().unwrap()).1, "2");
    assert!(matches!(select.limit, Some(Term::BindMarker(_))));
}

#[test]
fn selectors_are_terms_with_columns() {
    let select = select(
        "SELECT a AS b, count(*), writetime(c), sum(d), CAST(e AS text), f.g, h['x'], i[1..], -j, (int) k, l + 1 - m FROM t",
    );
    let Selection::Selectors(selectors) = &select.selection else {
        panic!()
    };
    assert_eq!(selectors[0].alias.as_ref().unwrap(), &"b");
    assert!(matches!(selectors[1].term, Term::CountRows(_)));
    assert!(matches!(
        selectors[2].term,
        Term::Metadata {
            function: MetadataFunction::WriteTime,
            ..
        }
    ));
    assert!(
        matches!(&selectors[3].term, Term::Function(call) if call.name.name == "sum" && call.arguments.len() == 1)
    );
    assert!(matches!(
        selectors[4].term,
        Term::Cast {
            target: NativeType::Text,
            ..
        }
    ));
    assert!(matches!(&selectors[5].term, Term::Field { field, .. } if *field == "g"));
    assert!(matches!(selectors[6].term, Term::Element { .. }));
    assert!(matches!(
        selectors[7].term,
        Term::Slice {
            from: Some(_),
            to: None,
            ..
        }
    ));
    assert!(matches!(selectors[8].term, Term::Negation { .. }));
    assert!(matches!(selectors[9].term, Term::TypeHint { .. }));
    assert!(matches!(&selectors[10].term, Term::Arithmetic { rest, .. } if rest.len() == 2));
}

#[test]
fn brackets_before_a_value_are_a_type_and_else_a_tuple() {
    let found = relations(
        "SELECT * FROM t WHERE a = (int) 1 AND b = (1) AND c = (ks.typ) {x: 1} AND d = ('x') AND e = (f(1))",
    );
    let term = |index: usize| match &found[index].comparand {
        Comparand::One(term) => term,
        other => panic!("{other:?}"),
    };
    assert!(
        matches!(term(0), Term::TypeHint { type_name, .. } if **type_name == TypeName::Native(NativeType::Int))
    );
    assert!(matches!(term(1), Term::Tuple { items, .. } if items.len() == 1));
    assert!(matches!(term(2), Term::TypeHint { term, .. } if matches!(**term, Term::UserType { .. })));
    assert!(matches!(term(3), Term::Tuple { .. }));
    assert!(matches!(term(4), Term::Tuple { .. }));
}

#[test]
fn braces_hold_sets_maps_or_fields() {
    let found = relations("SELECT * FROM t WHERE a = {1, 2} AND b = {1: 2} AND c = {x: 1} AND d = {}");
    let term = |index: usize| match &found[index].comparand {
        Comparand::One(term) => term,
        other => panic!("{other:?}"),
    };
    assert!(matches!(term(0), Term::Set { items, .. } if items.len() == 2));
    assert!(matches!(term(1), Term::Map { entries, .. } if entries.len() == 1));
    assert!(matches!(term(2), Term::UserType { fields, .. } if fields[0].0 == "x"));
    assert!(matches!(term(3), Term::Set { items, .. } if items.is_empty()));
}

#[test]
fn inserts_pair_columns_and_values() {
    let statement = parse("INSERT INTO t (a, b) VALUES (1, ?) IF NOT EXISTS USING TTL 60 AND TIMESTAMP ?");
    let Body::Insert(insert) = &statement.body else {
        panic!()
    };
    let InsertSource::Values { columns, values } = &insert.source else {
        panic!()
    };
    assert_eq!(names(columns), ["a", "b"]);
    assert_eq!(values.len(), 2);
    assert!(insert.if_not_exists);
    assert_eq!(literal(insert.using.ttl.as_ref().unwrap()).1, "60");
    assert!(matches!(insert.using.timestamp, Some(Term::BindMarker(_))));

    let statement = parse("INSERT INTO t JSON '{}' DEFAULT UNSET");
    let Body::Insert(insert) = &statement.body else {
        panic!()
    };
    assert!(matches!(
        insert.source,
        InsertSource::Json {
            default: JsonDefault::Unset,
            ..
        }
    ));
}

#[test]
fn assignments_say_what_happens_to_their_column() {
    let found = update(
        "UPDATE t SET a = 1, b = b + 2, c += 2, d = d - 3, e = e -3, f = [4] + f, g[5] = 6, h.i = 7 WHERE k = 1",
    );
    let operation = |index: usize| &found.assignments[index].operation;
    assert!(matches!(operation(0), AssignmentOperation::Set(_)));
    assert!(matches!(operation(1), AssignmentOperation::Add(term) if literal(term).1 == "2"));
    assert!(matches!(operation(2), AssignmentOperation::Add(_)));
    assert!(matches!(operation(3), AssignmentOperation::Subtract(term) if literal(term).1 == "3"));
    assert!(matches!(operation(4), AssignmentOperation::Subtract(term) if literal(term).1 == "3"));
    assert!(matches!(
        operation(5),
        AssignmentOperation::Prepend(Term::List { .. })
    ));
    assert!(matches!(operation(6), AssignmentOperation::SetElement { .. }));
    assert!(matches!(operation(7), AssignmentOperation::SetField { field, .. } if *field == "i"));
}

#[test]
fn conditions_are_exists_or_relations() {
    assert_eq!(
        update("UPDATE t SET a = 1 WHERE k = 1 IF EXISTS").condition,
        Some(If::Exists)
    );
    let Some(If::Conditions(conditions)) =
        update("UPDATE t SET a = 1 WHERE k = 1 IF b[1] > 2 AND c.d IN ?").condition
    else {
        panic!()
    };
    assert!(matches!(conditions[0].subject, Subject::Element(..)));
    assert!(
        matches!(&conditions[1].subject, Subject::Field(column, field) if *column == "c" && *field == "d")
    );
    assert!(matches!(conditions[1].comparand, Comparand::Marker(_)));
}

#[test]
fn deletions_are_columns_elements_and_fields() {
    let statement = parse("DELETE a, b[1], c.d FROM t USING TIMESTAMP 5 WHERE k = 1");
    let Body::Delete(delete) = &statement.body else {
        panic!()
    };
    assert!(matches!(delete.deletions[0].target, DeletionTarget::Column));
    assert!(matches!(delete.deletions[1].target, DeletionTarget::Element(_)));
    assert!(matches!(&delete.deletions[2].target, DeletionTarget::Field(field) if *field == "d"));
    assert!(delete.using.timestamp.is_some());
}

#[test]
fn batches_have_a_kind() {
    for (text, kind) in [
        ("BEGIN BATCH APPLY BATCH", BatchKind::Logged),
        ("BEGIN UNLOGGED BATCH APPLY BATCH", BatchKind::Unlogged),
        ("BEGIN COUNTER BATCH APPLY BATCH", BatchKind::Counter),
    ] {
        let Body::Batch(batch) = parse(text).body else {
            panic!()
        };
        assert_eq!(batch.kind, kind);
    }
}

#[test]
fn a_table_has_columns_keys_and_options() {
    let table = table(
        "CREATE TABLE ks.t (a int, b text, c timeuuid, s text STATIC, m frozen<map<text, int>>, v vector<float, 3>, \
         x 'org.example.T', p int MASKED WITH f(1), PRIMARY KEY ((a, b), c)) WITH CLUSTERING ORDER BY (c DESC) AND \
         COMPACT STORAGE AND comment = 'it''s' AND compaction = {'class': 'L', 'n': 1}",
    );
    assert_eq!(names(&table.partition_key), ["a", "b"]);
    assert_eq!(names(&table.clustering), ["c"]);
    assert_eq!(table.clustering_order[0].1, Direction::Descending);
    assert!(table.compact_storage);
    assert!(table.columns[3].is_static);
    let map = TypeName::Map(
        Box::new(TypeName::Native(NativeType::Text)),
        Box::new(TypeName::Native(NativeType::Int)),
    );
    assert_eq!(table.columns[4].type_name, TypeName::Frozen(Box::new(map)));
    assert!(matches!(&table.columns[5].type_name, TypeName::Vector(_, dimension) if dimension.text == "3"));
    assert!(
        matches!(&table.columns[6].type_name, TypeName::Custom(class) if class.decoded() == "org.example.T")
    );
    assert!(matches!(&table.columns[7].mask, Some(Mask::Function { name, .. }) if name.name == "f"));
    assert!(matches!(&table.options[0].value, PropertyValue::Literal(text) if text.decoded() == "it's"));
    assert!(matches!(&table.options[1].value, PropertyValue::Map(entries) if entries.len() == 2));
}

#[test]
fn a_column_may_be_the_primary_key() {
    let table = table("CREATE TABLE t (a int PRIMARY KEY, b int)");
    assert_eq!(names(&table.partition_key), ["a"]);
    assert!(table.clustering.is_empty());
}

#[test]
fn changes_of_a_table_are_told_apart() {
    let change = |text| match parse(text).body {
        Body::AlterTable(alter) => alter.change,
        other => panic!("{other:?}"),
    };
    assert!(
        matches!(change("ALTER TABLE t ADD (a int, b text)"), TableChange::Add { columns, .. } if columns.len() == 2)
    );
    assert!(matches!(
        change("ALTER TABLE t DROP a USING TIMESTAMP 5"),
        TableChange::Drop {
            timestamp: Some(_),
            ..
        }
    ));
    assert!(
        matches!(change("ALTER TABLE t RENAME a TO b"), TableChange::Rename { renames, .. } if renames[0].1 == "b")
    );
    assert!(matches!(change("ALTER TABLE t WITH x = 1"), TableChange::With(options) if options.len() == 1));
}

#[test]
fn an_index_names_its_targets() {
    let statement = parse("CREATE CUSTOM INDEX i ON ks.t (keys(m), v) USING 'sai' WITH OPTIONS = {'a': 'b'}");
    let Body::CreateIndex(index) = &statement.body else {
        panic!()
    };
    assert!(index.custom);
    assert_eq!(index.name.as_ref().unwrap(), &"i");
    assert_eq!(index.targets[0].kind, IndexTargetKind::Keys);
    assert_eq!(index.targets[1].kind, IndexTargetKind::Simple);
    assert_eq!(index.using.unwrap().decoded(), "sai");
    assert_eq!(index.options[0].name, "options");
}

#[test]
fn a_view_names_its_base_and_keys() {
    let statement =
        parse("CREATE MATERIALIZED VIEW v AS SELECT a, b FROM t WHERE a IS NOT NULL PRIMARY KEY ((a), b)");
    let Body::CreateView(view) = &statement.body else {
        panic!()
    };
    assert_eq!(view.base.name, "t");
    assert_eq!(
        (names(&view.partition_key), names(&view.clustering)),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    assert_eq!(view.where_clause.relations.len(), 1);
}

#[test]
fn other_statements_name_their_object() {
    let object = |text| match parse(text).body {
        Body::Other(other) => other.object.map(|object| {
            (
                object.keyspace.map(|name| name.to_string()),
                object.name.to_string(),
            )
        }),
        other => panic!("{other:?}"),
    };
    let named = |keyspace: Option<&str>, name: &str| Some((keyspace.map(str::to_owned), name.to_owned()));
    assert_eq!(object("DROP FUNCTION ks.f(int)"), named(Some("ks"), "f"));
    assert_eq!(
        object("CREATE ROLE 'Bob' WITH PASSWORD = 'x'"),
        named(None, "Bob")
    );
    assert_eq!(
        object("CREATE TRIGGER x ON ks.t USING 'c'"),
        named(Some("ks"), "t")
    );
    assert_eq!(object("GRANT SELECT ON ks.t TO bob"), named(Some("ks"), "t"));
    assert_eq!(object("DESCRIBE TABLE t"), named(None, "t"));
    assert_eq!(object("LIST USERS"), None);
}
