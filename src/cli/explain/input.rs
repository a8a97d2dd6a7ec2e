//! What is to be explained: files, the files of folders, standard input; and texts that say of each line where it is from.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, bail};
use cqlens_proxy::files::{self, Limit};
use cqlens_rehearse::recording::is_recording;

use super::source::SourceText;
use super::{applied, order, recorded};

/// How standard input is called.
pub(super) const STANDARD_INPUT: &str = "<stdin>";

/// The files to read in their order; `None` is standard input, also where none is named. Folders stand for the `.cql` files
/// in them. A file that takes back a migration is left out if the migration is named, too: a shell lists both.
pub(super) fn expanded(files: &[PathBuf]) -> Vec<anyhow::Result<Option<PathBuf>>> {
    if files.is_empty() {
        return vec![Ok(None)];
    }
    let mut all = Vec::new();
    let is_named = |applied: &Path| files.iter().any(|file| file == applied);
    for file in files {
        if order::applied_by(file).is_some_and(|applied| is_named(&applied)) {
            continue;
        }
        if file == Path::new("-") {
            all.push(Ok(None));
        } else if file.is_dir() && !is_recording(file) {
            match folder(file) {
                Ok(found) => all.extend(found.into_iter().map(|file| Ok(Some(file)))),
                Err(error) => all.push(Err(error)),
            }
        } else {
            all.push(Ok(Some(file.clone())));
        }
    }
    all
}

/// The `.cql` files of a folder, in the order in which they are applied.
fn folder(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut found, mut of_sql) = (Vec::new(), Vec::new());
    let mut folders = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let cannot_read = || format!("cannot read the folder {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(cannot_read)? {
            let entry = entry.with_context(cannot_read)?;
            let path = entry.path();
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            // A link to a folder could lead back to it.
            if entry.file_type().with_context(cannot_read)?.is_dir() {
                if !is_hidden && depth < MAX_DEPTH {
                    folders.push((path, depth + 1));
                }
            } else if path.extension().is_some_and(|extension| extension == "cql") {
                found.push(path);
            } else if path.extension().is_some_and(|extension| extension == "sql") {
                of_sql.push(path);
            }
            if found.len() + of_sql.len() + folders.len() > MAX_FILES {
                bail!("{} has more than {MAX_FILES} files", root.display());
            }
        }
    }
    if found.is_empty() {
        found.extend(of_sql.into_iter().filter(|path| is_liquibase(path)));
    }
    if found.is_empty() {
        bail!("there is no .cql file in {}", root.display());
    }
    let all: BTreeSet<_> = found.iter().cloned().collect();
    found.retain(|file| !order::is_undo(file, |applied| all.contains(applied)));
    if found.iter().any(|file| !order::is_of_shortcut(file)) {
        found.retain(|file| !order::is_of_shortcut(file));
    }
    order::sort(&mut found);
    Ok(found)
}

/// Whether a file begins as a changelog of Liquibase, which wants it to be called `.sql`.
fn is_liquibase(path: &Path) -> bool {
    let mut begin = Vec::new();
    let file = fs::File::open(path);
    let read = file.and_then(|file| file.take(BEGIN_READ).read_to_end(&mut begin));
    read.is_ok() && applied::is_liquibase(&String::from_utf8_lossy(&begin))
}

/// Bytes in which a changelog says that it is one.
const BEGIN_READ: u64 = 4096;

/// Folders in folders; source trees have a dozen.
const MAX_DEPTH: usize = 64;

const MAX_FILES: usize = 100_000;

/// What an input is called.
pub(super) fn name(path: Option<&Path>) -> String {
    path.map_or_else(|| STANDARD_INPUT.to_owned(), |path| path.display().to_string())
}

/// Opens an input.
pub(super) fn open(path: Option<&Path>) -> anyhow::Result<io::BufReader<Box<dyn Read>>> {
    let input: Box<dyn Read> = match path {
        None => Box::new(io::stdin()),
        Some(path) if is_recording(path) => {
            Box::new(recorded::RecordLines::open(path).with_context(|| cannot_read(Some(path)))?)
        }
        Some(path) => Box::new(fs::File::open(path).with_context(|| cannot_read(Some(path)))?),
    };
    Ok(io::BufReader::new(input))
}

/// What is read as a whole.
const LIMIT: Limit = Limit::new("statements", 64 << 20);

/// All of an input.
pub(super) fn text(path: Option<&Path>) -> anyhow::Result<String> {
    files::text_from(open(path)?, LIMIT).with_context(|| cannot_read(path))
}

fn cannot_read(path: Option<&Path>) -> String {
    format!("cannot read {}", name(path))
}

/// The parts of a text whose lines begin with `file:line:`, or `file:line:column:`, as `grep -n` writes them. Lines that
/// follow on each other in one file are one part, and so are those without such a beginning.
///
/// # Errors
/// If the first line does not say where it is from.
pub(super) fn located(text: &str) -> anyhow::Result<Vec<Rc<SourceText>>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parts = Vec::new();
    let mut part: Option<LineGroup<'_>> = None;
    for line in text.lines() {
        let located = Location::of(line);
        match (&mut part, located) {
            (Some(part), Some((location, cql))) if part.goes_on_at(location) => part.push(0, cql),
            (open, Some((location, cql))) => {
                parts.extend(open.take().map(LineGroup::source));
                let mut next = LineGroup {
                    file: location.file,
                    line: location.line,
                    lines: 0,
                    text: String::new(),
                };
                next.push(location.column.saturating_sub(1).min(MAX_COLUMN), cql);
                part = Some(next);
            }
            (Some(part), None) => part.push(0, line),
            (None, None) if line.trim().is_empty() => {}
            (None, None) => bail!("the first line does not begin with `file:line:`"),
        }
    }
    parts.extend(part.map(LineGroup::source));
    Ok(parts)
}

/// Columns beyond are not believed: the text is moved there with blanks.
const MAX_COLUMN: usize = 10_000;

/// Where a line is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Location<'t> {
    file: &'t str,
    line: usize,
    /// 1 where it is not said.
    column: usize,
}

impl<'t> Location<'t> {
    /// The location with which a line begins, and what follows it.
    fn of(line: &'t str) -> Option<(Self, &'t str)> {
        let mut from = 0;
        loop {
            let colon = from + line.get(from..)?.find(':')?;
            if let Some((number, rest)) = number(&line[colon + 1..])
                && colon > 0
            {
                let (column, cql) = self::number(rest).unwrap_or((1, rest));
                let location = Self {
                    file: &line[..colon],
                    line: number,
                    column,
                };
                return Some((location, cql));
            }
            from = colon + 1;
        }
    }
}

/// `12` of `12:rest`, and the rest.
fn number(text: &str) -> Option<(usize, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit())?;
    // No file has more lines than that.
    let number: u32 = text[..end].parse().ok()?;
    Some(((number as usize).max(1), text[end..].strip_prefix(':')?))
}

/// Lines that belong together.
struct LineGroup<'t> {
    file: &'t str,
    line: usize,
    lines: usize,
    text: String,
}

impl LineGroup<'_> {
    fn goes_on_at(&self, location: Location<'_>) -> bool {
        location.file == self.file && self.line.checked_add(self.lines) == Some(location.line)
    }

    fn push(&mut self, indent: usize, line: &str) {
        if self.lines > 0 {
            self.text.push('\n');
        }
        self.text.extend(std::iter::repeat_n(' ', indent));
        self.text.push_str(line);
        self.lines += 1;
    }

    fn source(self) -> Rc<SourceText> {
        Rc::new(SourceText::at_line(self.file, &self.text, self.line))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parts(text: &str) -> Vec<(String, String)> {
        let parts = located(text).unwrap();
        parts
            .iter()
            .map(|part| (part.name.to_string(), part.text.clone()))
            .collect()
    }

    #[test]
    fn lines_that_follow_on_each_other_are_one_part() {
        let text = "a.java:3:SELECT a\na.java:4: FROM t\na.java:9:USE k\nC:\\b.cs:9:USE k\n  -- more\n";
        let part = |file: &str, text: &str| (file.to_owned(), text.to_owned());
        assert_eq!(
            parts(text),
            [
                part("a.java", "SELECT a\n FROM t"),
                part("a.java", "USE k"),
                part("C:\\b.cs", "USE k\n  -- more"),
            ]
        );
    }

    #[test]
    fn a_column_moves_the_text_there() {
        assert_eq!(
            parts("a b.py:7:5:USE k"),
            [("a b.py".to_owned(), "    USE k".to_owned())]
        );
        let far = parts("a.py:7:99999999:USE k");
        assert_eq!(far[0].1.len(), MAX_COLUMN + 5);
        let huge = parts("a.py:4294967295:USE k\na.py:4294967296:USE k");
        assert_eq!(huge.len(), 1, "{huge:?}");
    }

    #[test]
    fn what_does_not_say_where_it_is_from_is_refused() {
        assert!(located("USE k").is_err());
        assert!(located(":7:USE k").is_err());
        assert!(located("\n\n").unwrap().is_empty());
    }
}
