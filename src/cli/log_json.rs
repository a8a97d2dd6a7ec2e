//! A line of the log as JSON, for what collects logs: `timestamp`, `level`, `target`, `message`, `fields`.
//!
//! Text that clients and servers chose is escaped as in the text form, so that it stays harmless where a tool prints it raw; numbers and
//! truth values stay what they are.

use std::fmt::{self, Write};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

use super::log_line::MOST_BYTES;
use cqlens_report::text::OneLine;

/// Writes a line for each event.
#[derive(Debug)]
pub(super) struct Json;

#[derive(Serialize)]
struct Line<'l> {
    timestamp: Timestamp,
    level: &'static str,
    target: &'l str,
    message: &'l str,
    #[serde(skip_serializing_if = "Map::is_empty")]
    fields: Map<String, Value>,
}

/// A line that is no event of its own: an error that ends the program.
pub(super) fn error(message: &str) -> String {
    line(&Level::ERROR, env!("CARGO_PKG_NAME"), message, Map::new())
}

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'l> LookupSpan<'l>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut values = Values {
            message: String::new(),
            fields: Map::new(),
            left: MOST_BYTES,
        };
        event.record(&mut values);
        let metadata = event.metadata();
        to.write_str(&line(
            metadata.level(),
            metadata.target(),
            &values.message,
            values.fields,
        ))
    }
}

fn line(level: &Level, target: &str, message: &str, fields: Map<String, Value>) -> String {
    let line = Line {
        timestamp: Timestamp::now(),
        level: level.as_str(),
        target,
        message,
        fields,
    };
    // There is nothing in it that JSON does not have.
    let line = serde_json::to_string(&line).unwrap_or_default();
    line + "\n"
}

/// The values of an event, with room for a number of bytes.
struct Values {
    message: String,
    fields: Map<String, Value>,
    left: usize,
}

impl Values {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        // Names are part of the program.
        let name = field.name().trim_start_matches("r#");
        self.fields.insert(name.to_owned(), value.into());
    }

    fn text(&mut self, value: fmt::Arguments<'_>) -> String {
        let mut text = String::new();
        // It fails where there is no more room.
        let _ = OneLine::new(&mut text, self.left).write_fmt(value);
        self.left = self.left.saturating_sub(text.len());
        text
    }
}

impl Visit for Values {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = self.text(format_args!("{value:?}"));
        match field.name() {
            "message" => self.message = text,
            _ => self.add(field, text),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::cli::log_line::tests::Lines;

    fn logged(log: impl FnOnce()) -> String {
        let lines = Lines::default();
        let to = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .event_format(Json)
            .with_writer(move || to.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        lines.text()
    }

    #[test]
    fn a_line_is_an_object_with_time_level_target_and_fields() {
        let text = logged(|| {
            tracing::warn!(error = %"a\n\x1b[2J\u{202e}", count = 3, is_new = true, r#type = "x", "from {}", "b\n");
        });
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        line["timestamp"].as_str().unwrap().parse::<Timestamp>().unwrap();
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["target"], "cqlens::cli::log_json::tests");
        assert_eq!(line["message"], r"from b\n");
        let fields =
            serde_json::json!({ "error": r"a\n\u{1b}[2J\u{202e}", "count": 3, "is_new": true, "type": "x" });
        assert_eq!(line["fields"], fields);
    }

    #[test]
    fn a_line_of_megabytes_is_cut_and_stays_json() {
        let long = "\"".repeat(3 << 20);
        // The message comes first.
        let text = logged(|| tracing::warn!(long = %long, last = %long, number = 2, "m"));
        assert!(text.len() < 2 * MOST_BYTES + 400, "{}", text.len());
        let line: Value = serde_json::from_str(&text).unwrap();
        let bytes = |name: &str| line["fields"][name].as_str().unwrap().len();
        assert_eq!((bytes("long"), bytes("last")), (MOST_BYTES - 1, 0));
        assert_eq!(line["fields"]["number"], 2);
    }

    #[test]
    fn an_error_that_ends_the_program_is_a_line_like_others() {
        let line: Value = serde_json::from_str(&error("cannot open \"x\"")).unwrap();
        assert_eq!(line["level"], "ERROR");
        assert_eq!(line["target"], "cqlens");
        assert_eq!(line["message"], "cannot open \"x\"");
    }
}
