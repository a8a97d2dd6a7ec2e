//! In which format an output is written, the same for all commands.

use std::path::Path;

use anyhow::bail;

use cqlens_report::{DiffFormat, Format};

/// A format that the ending of a file can name.
pub(super) trait NamedByEnding: Copy {
    /// All endings, in words.
    const ENDINGS: &'static str;

    /// The format that the ending of `path` names.
    fn of_path(path: &Path) -> Option<Self>;
}

impl NamedByEnding for Format {
    const ENDINGS: &'static str = Self::ENDINGS;

    fn of_path(path: &Path) -> Option<Self> {
        Self::of_path(path)
    }
}

impl NamedByEnding for DiffFormat {
    const ENDINGS: &'static str = Self::ENDINGS;

    fn of_path(path: &Path) -> Option<Self> {
        Self::of_path(path)
    }
}

/// The format of what is printed, or written to the file `output`: what was `asked` for with `--format`, else what the
/// file's ending says, else `printed`.
///
/// # Errors
/// A file whose ending says no format, where none was asked for: it would hold something else than its name says.
pub(super) fn chosen<F: NamedByEnding>(
    asked: Option<F>,
    output: Option<&Path>,
    printed: F,
) -> anyhow::Result<F> {
    match (asked, output) {
        (Some(format), _) => Ok(format),
        (None, None) => Ok(printed),
        (None, Some(path)) => of_file(path),
    }
}

/// The format that the ending of a file says.
///
/// # Errors
/// An ending that says none.
pub(super) fn of_file<F: NamedByEnding>(path: &Path) -> anyhow::Result<F> {
    match F::of_path(path) {
        Some(format) => Ok(format),
        None => bail!("the report {} must end in {}", path.display(), F::ENDINGS),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_was_asked_for_comes_before_the_ending() {
        let chosen = |asked, output: Option<&str>| chosen(asked, output.map(Path::new), Format::Md);
        assert_eq!(chosen(None, None).unwrap(), Format::Md);
        assert_eq!(chosen(None, Some("r.json")).unwrap(), Format::Json);
        assert_eq!(chosen(Some(Format::Csv), Some("r.txt")).unwrap(), Format::Csv);
        for output in ["r.pdf", "r", "/dev/stdout"] {
            let error = chosen(None, Some(output)).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("the report {output} must end in .html, .md, .json, .csv, .tsv or .svg")
            );
        }
    }

    #[test]
    fn every_ending_that_is_named_is_one() {
        fn check<F: NamedByEnding>() {
            for ending in F::ENDINGS.split([',', ' ']).filter(|word| word.starts_with('.')) {
                assert!(F::of_path(Path::new(&format!("r{ending}"))).is_some(), "{ending}");
            }
        }
        check::<Format>();
        check::<DiffFormat>();
        for format in <Format as clap::ValueEnum>::value_variants() {
            assert!(Format::ENDINGS.contains(&format!(".{}", format.ending())));
        }
    }
}
