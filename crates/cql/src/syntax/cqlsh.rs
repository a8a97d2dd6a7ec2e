//! The commands that `cqlsh` carries out itself. They are no CQL: no server sees them.

/// The command that `text` begins with, in upper case, and the bytes that it takes up: up to a semicolon or the end of the
/// line, whichever comes first, without either. `COPY` may have several lines.
///
/// A warning that `cqlsh` writes to standard output before what it was asked for (`cqlshmain.py`) is one as well.
pub(super) fn command(text: &str) -> Option<(&'static str, u32)> {
    if text.starts_with(WARNING) {
        let line = text.lines().next().unwrap_or_default();
        return Some(("WARNING", u32::try_from(line.len()).ok()?));
    }
    let end = text
        .find(|letter: char| !letter.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let goes_on = text[end..].starts_with(|letter: char| letter == '_' || letter.is_ascii_digit());
    let (word, rest) = text.split_at(end);
    let command = COMMANDS
        .iter()
        .find(|command| command.eq_ignore_ascii_case(word))?;
    // `SERIAL` begins a command of two words.
    let is_whole = *command != "SERIAL" || next_word(rest).eq_ignore_ascii_case("CONSISTENCY");
    if goes_on || !is_whole {
        return None;
    }
    let text = match *command {
        // `my_commands_ending_with_newline` of `cqlshlib` has all but this one.
        "COPY" => text,
        _ => text.lines().next().unwrap_or_default(),
    };
    let length = u32::try_from(text[..end_of_command(text)].trim_end().len()).ok()?;
    Some((*command, length))
}

/// `WARNING: cqlsh was built against 5.0.0, but this server is 5.0.6.  All features may not work!`
const WARNING: &str = "WARNING: cqlsh was built against ";

/// Those of Cassandra 2.1 to 5.0. `DESCRIBE` is one although newer servers answer it: it defines nothing and reads no table.
const COMMANDS: &[&str] = &[
    "CAPTURE",
    "CLEAR",
    "CLS",
    "CONSISTENCY",
    "COPY",
    "DEBUG",
    "DESC",
    "DESCRIBE",
    "ELAPSED",
    "EXIT",
    "EXPAND",
    "HELP",
    "HISTORY",
    "LOGIN",
    "PAGING",
    "QUIT",
    "SERIAL",
    "SHOW",
    "SOURCE",
    "TRACING",
    "UNICODE",
];

fn next_word(text: &str) -> &str {
    let text = text.trim_start_matches([' ', '\t']);
    let end = text.find(|letter: char| !letter.is_ascii_alphabetic());
    &text[..end.unwrap_or(text.len())]
}

/// Where a semicolon outside quotes stands, else the end.
fn end_of_command(text: &str) -> usize {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (letter, quote) {
            (';', None) => return at,
            ('\'' | '"', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_whole_word_in_any_case() {
        assert_eq!(command("Paging 100\nUSE a"), Some(("PAGING", 10)));
        assert_eq!(command("show;"), Some(("SHOW", 4)));
        assert_eq!(command("SERIAL  CONSISTENCY x"), Some(("SERIAL", 21)));
        for none in ["", "SERIAL x", "SHOWN", "COPY_2 x", "COPY1", "SELECT 1", "é"] {
            assert_eq!(command(none), None, "{none}");
        }
    }

    #[test]
    fn the_warning_of_another_version_takes_its_line() {
        let warning =
            "WARNING: cqlsh was built against 5.0.0, but this server is 5.0.6.  All features may not work!";
        let text = format!("{warning}\n\nCREATE KEYSPACE a");
        assert_eq!(command(&text), Some(("WARNING", 93)));
        assert_eq!(text[93..], *"\n\nCREATE KEYSPACE a");
        assert_eq!(command("WARNING: the disk is full"), None);
    }

    #[test]
    fn a_semicolon_in_quotes_ends_no_command() {
        let ends_before = |text: &str| command(text).map(|(_, length)| text[length as usize..].to_owned());
        let rest = Some("; USE a".to_owned());
        assert_eq!(ends_before("COPY t FROM 'a;b' WITH DELIMITER = ';'; USE a"), rest);
        assert_eq!(ends_before("COPY t (a)\n TO 'x'; USE a"), rest, "in two lines");
        assert_eq!(
            command("SOURCE 'open\nUSE a"),
            Some(("SOURCE", 12)),
            "a quote ends with its line"
        );
    }
}
