//! The fields of a line of the log: in one line, escaped, and of bounded length.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{FormatFields, format::Writer},
};

use cqlens_report::text::OneLine;

/// The bytes of a line's fields. CQL that `--show-values` asks for is cut, too.
pub(super) const MOST_BYTES: usize = 8 * 1024;

/// Writes `message name=value …`, names in italics where there are colours.
#[derive(Debug)]
pub(super) struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, to: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = FieldVisitor {
            has_colours: to.has_ansi_escapes(),
            values: OneLine::new(to, MOST_BYTES),
            is_first: true,
        };
        fields.record(&mut visitor);
        Ok(())
    }
}

struct FieldVisitor<'w> {
    values: OneLine<Writer<'w>>,
    has_colours: bool,
    is_first: bool,
}

impl Visit for FieldVisitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // It fails where the line is full, and then for all fields that follow.
        let _ = self.write(field.name(), value);
    }
}

impl FieldVisitor<'_> {
    fn write(&mut self, name: &str, value: &dyn fmt::Debug) -> fmt::Result {
        if !std::mem::take(&mut self.is_first) {
            self.values.write_char(' ')?;
        }
        if name != "message" {
            self.name(name.trim_start_matches("r#"))?;
        }
        write!(self.values, "{value:?}")
    }

    /// Names are part of the program.
    fn name(&mut self, name: &str) -> fmt::Result {
        if self.has_colours {
            return self
                .values
                .as_is(format_args!("\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m"));
        }
        write!(self.values, "{name}=")
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What was written by all clones.
    #[derive(Clone, Default)]
    pub(in crate::cli) struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Lines {
        pub(in crate::cli) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What `log` logs, without time and level.
    fn logged(has_colours: bool, log: impl FnOnce()) -> String {
        let lines = Lines::default();
        let to = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(Fields)
            .with_writer(move || to.clone())
            .with_ansi(has_colours)
            .without_time()
            .with_level(false)
            .with_target(false)
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        lines.text()
    }

    #[test]
    fn every_field_is_escaped_and_the_line_is_one() {
        let hostile = "a\n2026 ERROR forged \x1b[2J\u{202e}\u{9b}";
        let shown = r"a\n2026 ERROR forged \u{1b}[2J\u{202e}\u{9b}";
        let text = logged(
            false,
            || tracing::warn!(error = %hostile, name = ?"x\n", count = 3, "from {hostile}"),
        );
        assert_eq!(
            text,
            format!("from {shown} error={shown} name=\"x\\n\" count=3\n")
        );
        let text = logged(true, || tracing::warn!(error = %hostile, "m"));
        assert!(text.contains("\x1b[3merror\x1b[0m"), "{text:?}");
        assert!(text.contains(shown), "{text:?}");
    }

    #[test]
    fn a_line_of_megabytes_is_cut() {
        let long = "x".repeat(3 << 20);
        let text = logged(false, || tracing::warn!(after = 1, long = %long, last = 2, "m"));
        assert!(text.len() < MOST_BYTES + 16, "{}", text.len());
        assert!(
            text.ends_with("x…\n") || text.ends_with("x\n"),
            "{}",
            &text[MOST_BYTES - 8..]
        );
    }
}
