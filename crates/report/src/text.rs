//! Text that clients and servers chose, made fit for a log, a report or a terminal.
//!
//! A leaf, like `number`. Characters that move the cursor, reverse the direction of writing or cannot be seen
//! become escapes: `\n`, `\u{1b}`, `\u{202e}`. Backslashes stay as they are: an escape is for a reader's
//! eyes, and nothing reads it back. What Markdown and HTML mean by a character is the renderers' own affair.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
    io,
};

/// Whether `letter` does something else than to be seen: control characters (C0, DEL, C1), line and paragraph
/// separators, controls of writing direction, what Unicode has readers leave out
/// (`Default_Ignorable_Code_Point`), with which one name can be made to look like another, and what is no character
/// at all, of which XML permits some (U+FFFE, U+FFFF) nowhere.
pub fn is_unprintable(letter: char) -> bool {
    const LAST_OF_PLANE: u32 = 0xfffe;
    letter.is_control()
        || u32::from(letter) & LAST_OF_PLANE == LAST_OF_PLANE
        || matches!(letter, '\u{fdd0}'..='\u{fdef}')
        || matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// `text` in one line, with escapes for all that is not printable.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut escaped = OneLine::new(String::with_capacity(text.len() + 16), usize::MAX);
    // A `String` takes everything.
    let _ = escaped.write_str(text);
    Cow::Owned(escaped.to)
}

/// Writes [`escaped`] text, up to a number of bytes; what is more fails, and ends with `…`.
#[derive(Debug)]
pub struct OneLine<W> {
    to: W,
    left: usize,
}

impl<W: fmt::Write> OneLine<W> {
    /// Writes at most `most` bytes to `to`, the mark of a cut not counted.
    pub fn new(to: W, most: usize) -> Self {
        Self { to, left: most }
    }

    /// Writes what is not escaped, and does not count.
    ///
    /// # Errors
    /// Where text was cut before.
    pub fn as_is(&mut self, text: fmt::Arguments<'_>) -> fmt::Result {
        match self.left {
            0 => Err(fmt::Error),
            _ => self.to.write_fmt(text),
        }
    }

    fn put(&mut self, piece: &str) -> fmt::Result {
        match self.left.checked_sub(piece.len()) {
            Some(left) => {
                self.left = left;
                self.to.write_str(piece)
            }
            None => {
                if self.left > 0 {
                    self.to.write_char('…')?;
                }
                self.left = 0;
                Err(fmt::Error)
            }
        }
    }
}

impl<W: fmt::Write> fmt::Write for OneLine<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() <= self.left && !text.contains(is_unprintable) {
            return self.put(text);
        }
        for letter in text.chars() {
            if is_unprintable(letter) {
                self.put(&letter.escape_default().to_string())?;
            } else {
                self.put(letter.encode_utf8(&mut [0; 4]))?;
            }
        }
        Ok(())
    }
}

/// Passes text on with escapes for all that is not printable but line breaks and tabs, which are the
/// caller's.
///
/// It takes each `write` for a text of its own: what is no UTF-8 becomes `U+FFFD`.
#[derive(Debug)]
pub struct Lines<W> {
    to: W,
    form: Form,
}

/// What a text is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    /// Plain but for colours (`ESC [ 1 ; 31 m`), which change nothing but how it looks.
    Coloured,
    Json,
}

impl<W: io::Write> Lines<W> {
    /// Passes on to `to`.
    pub fn new(to: W) -> Self {
        Self {
            to,
            form: Form::Plain,
        }
    }

    /// Lets colours pass, if there are any.
    pub fn with_colours(to: W, colours: bool) -> Self {
        let form = if colours { Form::Coloured } else { Form::Plain };
        Self { to, form }
    }

    /// Passes JSON on, and writes escapes as JSON has them: what is read back is the same.
    pub fn of_json(to: W) -> Self {
        Self { to, form: Form::Json }
    }

    fn escape(&mut self, letter: char) -> io::Result<()> {
        if self.form != Form::Json {
            return write!(self.to, "{}", letter.escape_default());
        }
        letter
            .encode_utf16(&mut [0; 2])
            .iter()
            .try_for_each(|unit| write!(self.to, "\\u{unit:04x}"))
    }

    fn is_kept(&self, letter: char) -> bool {
        matches!(letter, '\n' | '\t') || !is_unprintable(letter)
    }

    fn pass(&mut self, text: &str) -> io::Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find(|letter| !self.is_kept(letter)) {
            let (plain, other) = rest.split_at(at);
            self.to.write_all(plain.as_bytes())?;
            let mut letters = other.chars();
            let Some(letter) = letters.next() else { break };
            let colour = if self.form == Form::Coloured {
                colour(other)
            } else {
                0
            };
            rest = if colour > 0 {
                self.to.write_all(&other.as_bytes()[..colour])?;
                &other[colour..]
            } else {
                self.escape(letter)?;
                letters.as_str()
            };
        }
        self.to.write_all(rest.as_bytes())
    }
}

impl<W: io::Write> io::Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for chunk in bytes.utf8_chunks() {
            self.pass(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                self.pass("\u{fffd}")?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The length of the colour with which `text` begins; 0 if it begins with anything else.
fn colour(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\x1b[") else {
        return 0;
    };
    let numbers = rest.find(|letter: char| !letter.is_ascii_digit() && letter != ';');
    match numbers {
        Some(length) if rest[length..].starts_with('m') => "\x1b[m".len() + length,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write as _;

    use super::*;

    #[test]
    fn what_moves_hides_or_reverses_is_escaped() {
        assert_eq!(escaped("büro_日本 😀 \\n"), "büro_日本 😀 \\n");
        assert!(matches!(escaped("plain"), Cow::Borrowed(_)));
        let hostile = "a\x1b[2J\n\r\t\0\x7f\u{9b}b\u{202e}c\u{2066}\u{200b}\u{2028}\u{61c}\u{feff}";
        let shown = r"a\u{1b}[2J\n\r\t\u{0}\u{7f}\u{9b}b\u{202e}c\u{2066}\u{200b}\u{2028}\u{61c}\u{feff}";
        assert_eq!(escaped(hostile), shown);
        assert_eq!(
            escaped("a\u{fffe}\u{ffff}\u{fdd0}\u{1ffff}"),
            r"a\u{fffe}\u{ffff}\u{fdd0}\u{1ffff}"
        );
    }

    #[test]
    fn a_line_is_cut_once_between_characters() {
        let mut line = OneLine::new(String::new(), 6);
        assert!(write!(line, "aé\u{202e}").is_err());
        assert!(line.write_str("more").is_err());
        assert_eq!(line.to, "aé…");
        let mut line = OneLine::new(String::new(), 3);
        assert!(line.write_str("aé").is_ok());
        assert!(line.write_str("b").is_err());
        assert_eq!(line.to, "aé");
    }

    #[test]
    fn json_is_read_back_as_it_was() {
        let text = "DEL \u{7f} C1 \u{9b} bidi \u{202e} tag \u{e0041} \n\" é";
        let mut json = Vec::new();
        serde_json::to_writer(Lines::of_json(&mut json), text).unwrap();
        let json = String::from_utf8(json).unwrap();
        assert!(!json.contains(is_unprintable), "{json:?}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }

    #[test]
    fn line_breaks_and_colours_pass_where_they_are_the_callers() {
        let text = "a\n\tb \x1b[1;31mred\x1b[0m \x1b]0;title\x07 \x1b[2J \u{202e}\r";
        let passed = |colours| {
            let mut to = Vec::new();
            Lines::with_colours(&mut to, colours)
                .write_all(text.as_bytes())
                .unwrap();
            String::from_utf8(to).unwrap()
        };
        let (title, rest) = (r"\u{1b}]0;title\u{7}", r"\u{1b}[2J \u{202e}\r");
        assert_eq!(
            passed(true),
            format!("a\n\tb \x1b[1;31mred\x1b[0m {title} {rest}")
        );
        assert_eq!(
            passed(false),
            format!("a\n\tb \\u{{1b}}[1;31mred\\u{{1b}}[0m {title} {rest}")
        );
        let mut to = Vec::new();
        Lines::new(&mut to).write_all(b"a\xffb").unwrap();
        assert_eq!(to, "a\u{fffd}b".as_bytes());
    }
}
