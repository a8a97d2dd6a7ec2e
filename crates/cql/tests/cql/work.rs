//! No text costs more than its length: steps are counted, not time, and asked of texts that repeat what could
//! be read again.

use cqlens_cql::syntax::{self, ParseErrorKind, Template, Work};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::exercise;

const MIB: usize = 1 << 20;

/// `piece` again and again, up to `len` bytes.
fn repeated(piece: &str, len: usize) -> String {
    piece.repeat(len / piece.len())
}

/// What begins each kind of token and each production that holds others, whole and broken off.
const PIECES: [&str; 66] = [
    "1",
    "1.",
    "1e",
    "1e-",
    "1e9",
    "1.5e",
    "-1",
    "-",
    "--",
    "--\n",
    "- ",
    "1n",
    "1h",
    "1h3",
    "1h3n",
    "9u",
    "P1",
    "-P1",
    "P1Y",
    "-P1T",
    "0x",
    "0xz",
    "12345678-",
    "a2345678-",
    "12345678-1234-1234-1234-",
    "-n",
    "-Na",
    "-Inf",
    "µ",
    "1µ",
    "'",
    "''",
    "'a' ",
    "\"",
    "\"\"",
    "\"a\"",
    "$",
    "$$",
    "$$a",
    "/*",
    "/**/",
    "//",
    "(",
    "((",
    "[",
    "{",
    "{a:",
    "{1:",
    "<",
    "frozen<",
    "(int)",
    "a(",
    "CAST(",
    "a.",
    "a[",
    "?",
    ":a",
    ", ",
    "; ",
    "AND ",
    "a = 1 AND ",
    "SELECT ",
    "BEGIN BATCH ",
    "DELETE FROM t; ",
    "token(a) ",
    "é\u{0}",
];

/// Where such pieces may stand.
const FRAMES: [(&str, &str); 9] = [
    ("", ""),
    ("SELECT ", "n FROM t"),
    ("SELECT a FROM t WHERE k = ", ""),
    ("SELECT a FROM t WHERE k IN (", "1)"),
    ("INSERT INTO t (a) VALUES (", ")"),
    ("UPDATE t SET a = ", " WHERE k = 1"),
    ("BEGIN BATCH ", " APPLY BATCH"),
    ("CREATE TABLE t (a ", "int)"),
    (
        "CREATE FUNCTION f() CALLED ON NULL INPUT RETURNS int LANGUAGE java AS ",
        "",
    ),
];

#[test]
fn what_could_be_read_again_is_read_a_few_times_at_most() {
    for piece in PIECES {
        for (before, after) in FRAMES {
            exercise::work(&format!("{before}{}{after}", repeated(piece, 8 << 10)));
        }
    }
}

/// The digits that stopped the audit for hours, and their like, in the length that a request can have.
#[test]
fn a_megabyte_of_one_token_costs_a_megabyte() {
    for piece in [
        "1",
        "1e",
        "-",
        "(",
        "[",
        "{",
        "/*",
        "'",
        "\"",
        "$$",
        "0x",
        "9u",
        "a",
        "12345678-",
        "P1",
        "1.",
    ] {
        exercise::work(&repeated(piece, MIB));
        exercise::work(&format!("SELECT {}n FROM t", repeated(piece, MIB)));
    }
    // A float that overflows only at its end.
    exercise::work(&format!("SELECT {}e999999999999 FROM t", repeated("1", MIB)));
    exercise::work(&format!("SELECT 1e{} FROM t", repeated("9", MIB)));
}

#[test]
fn a_broken_constant_is_one_error_of_its_whole_length() {
    let text = format!("SELECT {}n FROM t", repeated("1", MIB));
    let error = syntax::parse(&text).unwrap_err();
    assert_eq!(error.kind, ParseErrorKind::MalformedConstant);
    assert_eq!(error.span.len(), MIB + 1);
    assert_eq!(Template::unparsed(&text).text, "SELECT ? FROM ?");
}

#[test]
fn scripts_pass_over_broken_constants_too() {
    let text = format!("SELECT {}n FROM t; USE a", repeated("1", MIB));
    let parsed: Vec<bool> = syntax::statements(&text)
        .map(|(_, parsed)| parsed.is_ok())
        .collect();
    assert_eq!(parsed, [false, true]);
}

#[test]
fn nesting_ends_where_it_is_too_deep() {
    for open in ["(", "[", "{", "f(", "{a:", "[1,", "(int)("] {
        let text = format!("SELECT a FROM t WHERE k = {}", repeated(open, 100_000));
        let work = Work::of_text(&text);
        let error = syntax::parse_within(&text, &work).unwrap_err();
        assert_eq!(error.kind, ParseErrorKind::TooDeep, "{open}");
        exercise::work(&text);
    }
}

/// A table without a keyspace is given that of the connection, as often as it stands there.
#[test]
fn a_long_keyspace_does_not_make_a_long_template_of_each_statement() {
    let keyspace = "k".repeat(100_000);
    let text = format!(
        "BEGIN BATCH {} APPLY BATCH",
        (0..1_000)
            .map(|table| format!("DELETE FROM t{table} WHERE k = 1;"))
            .collect::<String>()
    );
    let work = Work::of_text(&text);
    let template = Template::of_within(&syntax::parse(&text).unwrap(), Some(&keyspace), &work);
    assert!(template.text.len() <= Template::MAX_LEN);
    assert!(work.spent() < 1_000 * 1_000, "{}", work.spent());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn steps_grow_with_the_text_alone(
        pieces in vec(select(PIECES.to_vec()), 1..4),
        frame in select(FRAMES.to_vec()),
        len in 200_usize..64 << 10,
    ) {
        exercise::work(&format!("{}{}{}", frame.0, repeated(&pieces.concat(), len), frame.1));
    }
}
