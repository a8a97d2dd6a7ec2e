//! What holds for every text: no panic, the same answer from a script, and templates that are their own
//! template.

use cqlens_cql::syntax::{self, Keyword, Template};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::exercise;

/// What the fuzz targets ask too.
fn ask_everything(text: &str) {
    exercise::text(text);
    exercise::template(text);
    exercise::shape(text);
    exercise::work(text);
}

/// Words and signs, of which statements could be made.
fn soup() -> impl Strategy<Value = String> {
    let words: Vec<String> = Keyword::ALL
        .iter()
        .map(|keyword| keyword.as_str().to_owned())
        .chain(
            "a b t ks \"A\" \"\" 1 -1 1.5 1e5 'x' '' $$y$$ 0xff 1h P1Y true NaN ? :v ( ) [ ] { } < > , . : ; = != <= >= + - * / % += -= \
             .. expr( 123e4567-e89b-12d3-a456-426655440000 -- /* */ ' \" $$ BETWEEN BYPASS CACHE TIMEOUT µ é \n"
                .split(' ')
                .map(str::to_owned),
        )
        .collect();
    vec(select(words), 0..40).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in any::<String>()) {
        ask_everything(&text);
    }

    #[test]
    fn no_heap_of_tokens_panics(text in soup()) {
        ask_everything(&text);
    }

    #[test]
    fn no_damaged_statement_panics(statement in modification(), at in any::<prop::sample::Index>(), with in soup()) {
        let at = (0..=at.index(statement.len() + 1)).rev().find(|at| statement.is_char_boundary(*at)).unwrap();
        ask_everything(&statement[..at]);
        ask_everything(&format!("{}{with}{}", &statement[..at], &statement[at..]));
    }

    #[test]
    fn a_generated_statement_parses_and_its_template_is_its_own(text in prop_oneof![query(), modification(), batch()]) {
        let statement = syntax::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let found = Template::of(&statement, Some("ks"));
        let again = syntax::parse(&found.text).unwrap_or_else(|error| panic!("{text}: {}: {error}", found.text));
        prop_assert_eq!(&Template::of(&again, None), &found, "{}", text);
        prop_assert!(!found.text.contains("secret"), "{}", found.text);
    }

    #[test]
    fn a_script_is_its_statements(texts in vec(prop_oneof![query(), modification(), batch()], 0..6)) {
        let script = texts.join(";\n");
        let found: Vec<String> = syntax::statements(&script).map(|(span, parsed)| {
            parsed.unwrap();
            span.of(&script).to_owned()
        }).collect();
        prop_assert_eq!(found, texts);
    }

    #[test]
    fn values_do_not_show_where_a_statement_is_cut_off(text in modification(), at in any::<prop::sample::Index>()) {
        let at = (0..=at.index(text.len() + 1)).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        let found = Template::unparsed(&text[..at]);
        prop_assert!(!found.text.contains("secret"), "{}", found.text);
    }
}

fn name() -> impl Strategy<Value = String> {
    select(vec![
        "a",
        "b",
        "Col",
        "\"Q u\"",
        "\"se\"\"l\"",
        "key",
        "json",
        "distinct",
        "\"as\"",
        "\"token\"",
        "\"nan\"",
        "ttl",
        "values",
        "exists",
    ])
    .prop_map(str::to_owned)
}

fn table() -> impl Strategy<Value = String> {
    select(vec!["t", "ks.t", "\"T\"", "K.\"a b\"", "group"]).prop_map(str::to_owned)
}

fn constant() -> impl Strategy<Value = String> {
    let fixed = select(vec![
        "1",
        "-1",
        "2.5e3",
        "true",
        "null",
        "?",
        ":name",
        "0xCAFE",
        "1h30m",
        "'secret'",
        "'it''s secret'",
        "$$secret$$",
        "NaN",
        "{}",
        "[]",
        "123e4567-e89b-12d3-a456-426655440000",
    ]);
    fixed.prop_map(str::to_owned)
}

fn joined(
    items: impl Strategy<Value = String>,
    count: std::ops::Range<usize>,
) -> impl Strategy<Value = String> {
    vec(items, count).prop_map(|items| items.join(", "))
}

fn term() -> impl Strategy<Value = String> {
    constant().prop_recursive(4, 24, 4, |inner| {
        let items = vec(inner.clone(), 1..4).prop_map(|items| items.join(", "));
        prop_oneof![
            items.clone().prop_map(|items| format!("[{items}]")),
            items.clone().prop_map(|items| format!("{{{items}}}")),
            items.clone().prop_map(|items| format!("({items})")),
            items.prop_map(|items| format!("f({items})")),
            (inner.clone(), inner.clone()).prop_map(|(key, value)| format!("{{{key}: {value}}}")),
            (name(), inner.clone()).prop_map(|(field, value)| format!("{{{field}: {value}}}")),
            (inner.clone(), select(vec!["+", "-", "*", "/", "%"]), inner.clone())
                .prop_map(|(left, operator, right)| format!("({left} {operator} {right})")),
            constant().prop_map(|term| format!("CAST({term} AS int)")),
            constant().prop_map(|term| format!("(list<frozen<ks.u>>) {term}")),
            constant().prop_map(|term| format!("- {term}")),
        ]
    })
    // A sign may stand before a simple term only, not within a product.
    .prop_filter("two signs in a row", |text| !text.contains("- -"))
}

fn selector() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        name(),
        constant(),
        Just("count(*)".to_owned()),
        name().prop_map(|name| format!("writetime({name})"))
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(|items| format!("ks.f({})", items.join(", "))),
            vec(inner.clone(), 1..3).prop_map(|items| format!("({})", items.join(", "))),
            inner.clone().prop_map(|term| format!("CAST({term} AS text)")),
            inner.clone().prop_map(|term| format!("- ({term})")),
            (inner.clone(), inner).prop_map(|(left, right)| format!("({left}) + ({right})")),
            (name(), constant()).prop_map(|(name, key)| format!("\"m\".{name}[{key}..]")),
        ]
    })
}

fn relation() -> impl Strategy<Value = String> {
    prop_oneof![
        (
            name(),
            select(vec![
                "=",
                "!=",
                "<",
                "<=",
                ">",
                ">=",
                "LIKE",
                "CONTAINS",
                "CONTAINS KEY"
            ]),
            term()
        )
            .prop_map(|(column, operator, term)| format!("{column} {operator} {term}")),
        (name(), joined(term(), 0..4)).prop_map(|(column, terms)| format!("{column} IN ({terms})")),
        name().prop_map(|column| format!("({column} IN ?)")),
        (
            name(),
            name(),
            joined((term(), term()).prop_map(|(a, b)| format!("({a}, {b})")), 0..3)
        )
            .prop_map(|(a, b, tuples)| format!("({a}, {b}) IN ({tuples})")),
        (name(), term()).prop_map(|(column, term)| format!("token({column}) > {term}")),
        (name(), term(), term()).prop_map(|(column, key, value)| format!("{column}[{key}] = {value}")),
        name().prop_map(|column| format!("{column} IS NOT NULL")),
    ]
}

fn where_clause() -> impl Strategy<Value = String> {
    vec(relation(), 1..4).prop_map(|relations| format!("WHERE {}", relations.join(" AND ")))
}

fn query() -> impl Strategy<Value = String> {
    let selectors = joined(
        (
            selector(),
            prop_oneof![Just(String::new()), name().prop_map(|name| format!(" AS {name}"))],
        )
            .prop_map(|(selector, alias)| selector + &alias),
        1..4,
    );
    let tail = select(vec![
        "",
        " LIMIT 10",
        " PER PARTITION LIMIT ? LIMIT 5 ALLOW FILTERING",
        " ORDER BY a ASC, b DESC",
    ]);
    (
        select(vec!["", "JSON ", "DISTINCT "]),
        selectors,
        table(),
        where_clause(),
        tail,
    )
        .prop_map(|(modifier, selectors, table, clause, tail)| {
            format!("SELECT {modifier}\"x\", {selectors} FROM {table} {clause}{tail}")
        })
}

fn modification() -> impl Strategy<Value = String> {
    prop_oneof![
        (table(), vec((name(), term()), 1..4)).prop_map(|(table, pairs)| {
            let (columns, values): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            format!("INSERT INTO {table} ({}) VALUES ({}) USING TTL 5", columns.join(", "), values.join(", "))
        }),
        (table(), name(), term(), term(), where_clause()).prop_map(|(table, column, key, value, clause)| {
            format!("UPDATE {table} SET {column} = {column} + {value}, x[{key}] = {value}, y.{column} = {value} {clause} IF EXISTS")
        }),
        (table(), name(), term(), where_clause())
            .prop_map(|(table, column, key, clause)| format!("DELETE {column}, m[{key}] FROM {table} {clause}")),
        (table(), constant()).prop_map(|(table, _)| format!("INSERT INTO {table} JSON '{{\"a\": \"secret\"}}' DEFAULT UNSET")),
    ]
}

fn batch() -> impl Strategy<Value = String> {
    vec(modification(), 0..4)
        .prop_map(|children| format!("BEGIN UNLOGGED BATCH {} APPLY BATCH", children.join("; ")))
}
