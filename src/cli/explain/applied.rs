//! The part of a file that a migration tool applies: some also say there how the migration is taken back, and some need
//! no semicolon between two statements.

use std::ops::Range;
use std::rc::Rc;

use super::source::SourceText;

/// The parts of a text that are applied, each with its line in the file; all of it where no tool's mark is in it.
pub(super) fn parts(name: &str, text: &str) -> Vec<Rc<SourceText>> {
    let Some(layout) = Layout::of(text) else {
        return vec![Rc::new(SourceText::new(name, text))];
    };
    let mut parts = Vec::new();
    for (line, range) in layout.applied(text) {
        let part = SourceText::at_line(name, &text[range], line);
        let part = match parts.is_empty() {
            true => part,
            false => part.going_on(),
        };
        parts.push(Rc::new(part));
    }
    parts
}

/// Whether a text is a changelog in Liquibase's formatted SQL.
pub(super) fn is_liquibase(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().and_then(comment);
    first.is_some_and(|comment| begins_with(comment, "liquibase formatted sql"))
}

/// How a tool marks parts of a file: comments that have a line of their own.
#[derive(Debug, Clone, Copy)]
enum Layout {
    /// One part is applied, the other takes it back.
    UpAndDown(&'static UpAndDown),
    /// Liquibase: `--changeset author:id` begins each change. How it is taken back stands in comments.
    Changesets,
}

/// The marks of a tool, in lower case and without the dashes.
#[derive(Debug)]
struct UpAndDown {
    /// What is applied follows; none where that is what the file begins with.
    up: Option<&'static str>,
    /// What takes it back follows.
    down: &'static str,
    /// The next statement follows, which needs no semicolon before it.
    next: Option<&'static str>,
}

const fn marks(up: &'static str, down: &'static str) -> UpAndDown {
    UpAndDown {
        up: Some(up),
        down,
        next: None,
    }
}

const UP_AND_DOWN: &[UpAndDown] = &[
    // pillar.
    UpAndDown {
        next: Some("stage:"),
        ..marks("up:", "down:")
    },
    // cdeploy and MyBatis Migrations, which also have a blank before the at sign.
    UpAndDown {
        up: None,
        down: "//@undo",
        next: None,
    },
    UpAndDown {
        up: None,
        down: "// @undo",
        next: None,
    },
    // goose.
    marks("+goose up", "+goose down"),
    // sql-migrate.
    marks("+migrate up", "+migrate down"),
    // dbmate.
    marks("migrate:up", "migrate:down"),
    // mig31.
    marks("@up", "@down"),
];

/// What a line does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// What follows is applied, as a part of its own.
    Applied,
    /// What follows is not applied.
    LeftOut,
    /// A part that is applied ends, and another one begins.
    Next,
}

impl Layout {
    /// The layout whose first mark is in the text.
    fn of(text: &str) -> Option<Self> {
        if is_liquibase(text) {
            return Some(Self::Changesets);
        }
        let comments = text.lines().filter_map(comment);
        let mut tools = comments.filter_map(|comment| {
            UP_AND_DOWN
                .iter()
                .find(|tool| begins_with(comment, tool.up.unwrap_or(tool.down)))
        });
        tools.next().map(Self::UpAndDown)
    }

    fn mark(self, line: &str) -> Option<Mark> {
        let comment = comment(line)?;
        match self {
            Self::UpAndDown(tool) => {
                let is = |mark: &str| begins_with(comment, mark);
                match tool {
                    _ if is(tool.down) => Some(Mark::LeftOut),
                    _ if tool.up.is_some_and(is) => Some(Mark::Applied),
                    _ if tool.next.is_some_and(is) => Some(Mark::Next),
                    _ => None,
                }
            }
            Self::Changesets if begins_with(comment, "changeset") => Some(match is_of_cassandra(comment) {
                true => Mark::Applied,
                false => Mark::LeftOut,
            }),
            Self::Changesets => None,
        }
    }

    fn begins_applied(self) -> bool {
        matches!(self, Self::UpAndDown(UpAndDown { up: None, .. }))
    }

    /// What is applied: from which line on, and which bytes.
    fn applied(self, text: &str) -> Vec<(usize, Range<usize>)> {
        let mut parts = Vec::new();
        let mut open = self.begins_applied().then_some((1, 0));
        let mut start = 0;
        for (index, line) in text.split_inclusive('\n').enumerate() {
            let end = start + line.len();
            let next = (index + 2, end);
            match self.mark(line) {
                None => {}
                Some(Mark::Next) if open.is_none() => {}
                Some(mark) => {
                    parts.extend(open.map(|(first, from)| (first, from..start)));
                    open = (mark != Mark::LeftOut).then_some(next);
                }
            }
            start = end;
        }
        parts.extend(open.map(|(first, from)| (first, from..text.len())));
        parts
    }
}

/// What a line of nothing but a comment says.
fn comment(line: &str) -> Option<&str> {
    Some(
        line.trim_start_matches('\u{feff}')
            .trim()
            .strip_prefix("--")?
            .trim(),
    )
}

/// Whether a comment is a mark, or one with settings behind it (`+goose Up`, `changeset me:1 dbms:cassandra`).
fn begins_with(comment: &str, mark: &str) -> bool {
    let (Some(begin), Some(rest)) = (comment.get(..mark.len()), comment.get(mark.len()..)) else {
        return false;
    };
    begin.eq_ignore_ascii_case(mark)
        && match mark {
            // Words that other comments begin with.
            "up:" | "down:" | "@up" | "@down" => rest.is_empty(),
            _ => mark.ends_with(':') || rest.is_empty() || rest.starts_with([' ', '\t']),
        }
}

/// Whether a changeset is applied to Cassandra: `dbms:` names the databases that it is for (`!` those that it is not for).
fn is_of_cassandra(changeset: &str) -> bool {
    let mut settings = changeset.split_whitespace();
    let Some(databases) = settings.find_map(|setting| setting.strip_prefix("dbms:")) else {
        return true;
    };
    let databases = databases.trim_matches('"').split(',').map(str::trim);
    let (others, these): (Vec<_>, Vec<_>) = databases.partition(|name| name.starts_with('!'));
    let is_named = |name: &&str| {
        ["cassandra", "all"]
            .iter()
            .any(|it| name.eq_ignore_ascii_case(it))
    };
    match these.is_empty() {
        true => !others.iter().any(|name| is_named(&name.trim_start_matches('!'))),
        false => these.iter().any(is_named),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line and the text of each part, without the blank lines around it.
    fn applied(text: &str) -> Vec<(usize, String)> {
        let layout = Layout::of(text).map(|layout| layout.applied(text));
        let parts = layout.unwrap_or_else(|| vec![(1, 0..text.len())]);
        parts
            .into_iter()
            .map(|(line, range)| (line, text[range].trim().to_owned()))
            .collect()
    }

    fn part(line: usize, text: &str) -> (usize, String) {
        (line, text.to_owned())
    }

    #[test]
    fn what_takes_back_is_left_out() {
        for (text, line) in [
            ("CREATE x\n--//@UNDO\nDROP x", 1),
            ("CREATE x\n-- // @UNDO\r\nDROP x", 1),
            ("-- +goose Up\nCREATE x\n-- +goose Down\nDROP x", 2),
            (
                "-- +migrate Up notransaction\nCREATE x\n-- +migrate Down\nDROP x",
                2,
            ),
            ("-- migrate:up\nCREATE x\n-- migrate:down\nDROP x", 2),
            ("\n-- @up\nCREATE x\n-- @down\nDROP x", 3),
            ("-- description: x\n-- up:\n\nCREATE x\n\n-- down:\n\nDROP x", 3),
        ] {
            assert_eq!(applied(text), [part(line, "CREATE x")], "{text}");
        }
    }

    #[test]
    fn each_stage_and_each_changeset_is_a_part() {
        let pillar = "-- up:\n-- stage: 1\nCREATE x\n-- stage: 2\nCREATE y\n-- down:\n-- stage: 1\nDROP y";
        assert_eq!(
            applied(pillar),
            [part(2, ""), part(3, "CREATE x"), part(5, "CREATE y")]
        );
        let liquibase = "--liquibase formatted sql\n\n--changeset me:1\nCREATE x\n--rollback DROP x\n\
                         --changeset me:2 dbms:postgresql,mysql\nCREATE z\n--changeset me:3 dbms:!oracle\nCREATE y;";
        assert_eq!(
            applied(liquibase),
            [part(4, "CREATE x\n--rollback DROP x"), part(9, "CREATE y;")]
        );
    }

    #[test]
    fn comments_that_only_look_like_it_leave_out_nothing() {
        for text in [
            "CREATE x;\n-- down: the old table goes next\nDROP x;",
            "CREATE x; -- //@UNDO\nDROP x;",
            "-- upgrade: of x\nCREATE x;",
            "--changeset me:1\nCREATE x;",
        ] {
            assert_eq!(applied(text), [part(1, text)], "{text}");
        }
    }

    #[test]
    fn a_changeset_is_for_the_databases_that_it_names() {
        for (changeset, applies) in [
            ("changeset me:1", true),
            ("changeset me:1 runOnChange:true dbms:\"oracle,Cassandra\"", true),
            ("changeset me:1 dbms:!cassandra", false),
            ("changeset me:1 dbms:h2", false),
        ] {
            assert_eq!(is_of_cassandra(changeset), applies, "{changeset}");
        }
    }
}
