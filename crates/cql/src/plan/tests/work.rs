//! What planning costs, and what is given up.

use super::*;

#[test]
fn long_sums_and_deep_brackets_cost_no_exponential_time() {
    let sum = |operands: usize| vec!["1"; operands].join(" + ");
    let counted = |operands: usize| count(&format!("SELECT * FROM kv WHERE k = {}", sum(operands)));
    assert_eq!(counted(30), Count::Exact(1));
    assert_eq!(counted(900), Count::Unknown(Reason::StatementTooComplex));
    let nested = format!("{}1{}", "(".repeat(80), ")".repeat(80));
    assert_eq!(
        count(&format!("SELECT * FROM kv WHERE k = {nested}")),
        Count::Exact(1)
    );
    let negated = format!("{}1{}", "-(".repeat(40), ")".repeat(40));
    assert_eq!(
        count(&format!("SELECT * FROM kv WHERE k = {negated}")),
        Count::Exact(1)
    );
}

/// What a statement takes, and why it has no plan where it has none.
fn work_of(text: &str) -> (u64, Option<Reason>) {
    let work = Work::of_text(text);
    let statement = syntax::parse_within(text, &work).unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::of_within(&statement, Some("shop"), schema(), &work);
    let reason = match plan.execute(None, &mut Keys::new()) {
        Ok(footprint) => footprint.reason(),
        Err(refusal) => Some(refusal.reason),
    };
    (work.spent(), reason)
}

/// The most that a statement may have taken when it is given up: what was begun last is not linear in
/// anything, but small.
fn most(text: &str) -> u64 {
    Work::BASE + Work::PER_BYTE * text.len() as u64 + (1 << 22)
}

#[test]
fn nested_arithmetic_is_given_up_and_said() {
    let nested = |open: &str, close: &str, depth: usize| {
        let key = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        format!("SELECT v FROM kv WHERE k = {key}")
    };
    for (open, close) in [
        ("(1 + ", ")"),
        ("(", " + 1)"),
        ("-(", ")"),
        ("(1 + 1) * (", ")"),
        ("int_as_blob(", ")"),
        ("to_timestamp(", ")"),
        ("CAST((1 + ", ") AS int)"),
    ] {
        let text = nested(open, close, 40);
        let (spent, _) = work_of(&text);
        assert!(spent <= most(&text), "{open}: {spent}");
    }
    let (spent, reason) = work_of(&nested("(1 + ", ")", 60));
    assert_eq!(reason, Some(Reason::StatementTooComplex), "{spent}");
    let long = format!("SELECT v FROM kv WHERE k = 1{}", " + (1 * (2 - 3))".repeat(900));
    assert_eq!(work_of(&long).1, Some(Reason::StatementTooComplex));
}

#[test]
fn what_people_write_is_within_the_budget() {
    let list = |count: usize| {
        (0..count)
            .map(|key| key.to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    for text in [
        format!("SELECT v FROM kv WHERE k IN ({})", list(20_000)),
        "SELECT v FROM kv WHERE k = 1 + 2 * (3 - 4) % 5".to_owned(),
        "SELECT v FROM by_varint WHERE k = 123456789012345678901234567890".to_owned(),
        format!(
            "BEGIN BATCH {} APPLY BATCH",
            "UPDATE kv SET v = 1 WHERE k = 1; ".repeat(5_000)
        ),
        format!(
            "SELECT * FROM rows WHERE k = 1 AND (c1, c2, c3) IN ({})",
            "(1, 2, 3), ".repeat(5_000) + "(1, 2, 4)"
        ),
    ] {
        assert_eq!(work_of(&text).1, None, "{}", &text[..40]);
    }
}

#[test]
fn numbers_of_a_million_digits_are_given_up_before_they_are_read() {
    for digits in [100_000, 1_000_000] {
        for text in [
            format!("SELECT v FROM by_varint WHERE k = {}", "1".repeat(digits)),
            format!("SELECT v FROM by_decimal WHERE k = 1.{}", "1".repeat(digits)),
            format!(
                "INSERT INTO by_varint JSON '{{\"k\": \"{}\"}}'",
                "1".repeat(digits)
            ),
        ] {
            // The steps count what reading the digits would take, not what was done.
            assert_eq!(
                work_of(&text).1,
                Some(Reason::StatementTooComplex),
                "{}",
                &text[..40]
            );
        }
    }
    let many = format!(
        "SELECT v FROM by_varint WHERE k IN ({})",
        vec!["1".repeat(1_000); 100].join(", ")
    );
    assert_eq!(work_of(&many).1, None);
}

#[test]
fn as_many_markers_as_there_can_be_are_each_looked_up_once() {
    let many = usize::from(u16::MAX);
    let text = format!("SELECT v FROM kv WHERE k IN ({})", vec!["?"; many].join(", "));
    let bytes: Vec<[u8; 4]> = (0..u32::from(u16::MAX)).map(u32::to_be_bytes).collect();
    let values = ValuesBuf::positional(bytes.iter().map(|value| Value::Bytes(value))).unwrap();
    let plan = plan(&text);
    let started = std::hint::black_box(plan.footprint(&values.values(), &mut Keys::new()));
    assert_eq!(started.count, Count::Exact(many as u64));
}

#[test]
fn short_lists_that_make_very_many_long_keys_are_cut_short() {
    let day: Vec<[u8; 4]> = (0..5_000_u32).map(u32::to_be_bytes).collect();
    let mut list = 5_000_i32.to_be_bytes().to_vec();
    for day in &day {
        list.extend([0, 0, 0, 4]);
        list.extend(day);
    }
    let shop = vec![b'a'; 60_000];
    let values = ValuesBuf::positional([Value::Bytes(&shop), Value::Bytes(&list)]).unwrap();
    let mut keys = Keys::new();
    let footprint =
        plan("SELECT total FROM orders WHERE shop = ? AND day IN ?").footprint(&values.values(), &mut keys);
    assert_eq!(footprint.count, Count::Exact(5_000));
    assert_eq!(footprint.keys_missing, Some(Reason::TooManyKeys));
    assert!(keys.overflowed() < 1_000, "{}", keys.overflowed());
}

mod work_properties {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;

    /// Where a term may stand.
    const FRAMES: [(&str, &str); 6] = [
        ("SELECT v FROM kv WHERE k = ", ""),
        ("SELECT v FROM kv WHERE k IN (", ")"),
        ("SELECT * FROM rows WHERE k = 1 AND (c1, c2) > (", ", 1)"),
        ("INSERT INTO kv (k, v) VALUES (1, ", ")"),
        ("UPDATE kv SET v = v + ", " WHERE k = 1"),
        ("BEGIN BATCH UPDATE kv SET v = 1 WHERE k = ", " APPLY BATCH"),
    ];

    const OPENINGS: [(&str, &str); 9] = [
        ("(", ")"),
        ("-(", ")"),
        ("(1 + ", ")"),
        ("(", " * 2)"),
        ("int_as_blob(", ")"),
        ("CAST(", " AS int)"),
        ("(int)(", ")"),
        ("[", "]"),
        ("{1: ", "}"),
    ];

    proptest! {
        #[test]
        fn no_statement_takes_more_steps_than_its_length_allows(
            frame in select(&FRAMES[..]),
            openings in vec(select(&OPENINGS[..]), 1..4),
            depth in 0_usize..150,
            more in select(&[" + 1", " * (2 - 3)", ", 1", " % 5", ""][..]),
            times in 0_usize..2_000,
        ) {
            let nested = openings.iter().cycle().take(depth).fold("1".to_owned(), |inner, (open, close)| {
                format!("{open}{inner}{close}")
            });
            let text = format!("{}{nested}{}{}", frame.0, more.repeat(times), frame.1);
            let work = Work::of_text(&text);
            if let Ok(statement) = syntax::parse_within(&text, &work) {
                let plan = Plan::of_within(&statement, Some("shop"), schema(), &work);
                let _ = plan.execute(None, &mut Keys::new());
            }
            prop_assert!(work.spent() <= most(&text), "{} for {} bytes", work.spent(), text.len());
        }
    }
}
