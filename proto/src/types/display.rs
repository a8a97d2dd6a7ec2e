//! Values in readable form: as cqlsh shows them, or with `{:#}` as CQL literals.
//!
//! Unlike cqlsh, floating point numbers keep all the digits that distinguish them from their neighbours.

use std::fmt::{self, Write};

use super::CqlValue;
use super::number::show_varint;

impl fmt::Display for CqlValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let style = if out.alternate() {
            Style::Literal
        } else {
            Style::TopLevel
        };
        show(self, style, out)
    }
}

/// cqlsh shows a text as it is, but puts it in quotes inside a collection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    TopLevel,
    Nested,
    Literal,
}

impl Style {
    fn inside(self) -> Style {
        if self == Style::Literal {
            Style::Literal
        } else {
            Style::Nested
        }
    }
}

fn show(value: &CqlValue, style: Style, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value {
        CqlValue::Null => out.write_str("null"),
        CqlValue::Empty => out.write_str(if style == Style::TopLevel { "" } else { "''" }),
        CqlValue::Ascii(text) | CqlValue::Text(text) if style == Style::TopLevel => out.write_str(text),
        CqlValue::Ascii(text) | CqlValue::Text(text) => show_quoted(text, out),
        CqlValue::BigInt(number) | CqlValue::Counter(number) => write!(out, "{number}"),
        CqlValue::Int(number) => write!(out, "{number}"),
        CqlValue::SmallInt(number) => write!(out, "{number}"),
        CqlValue::TinyInt(number) => write!(out, "{number}"),
        CqlValue::Varint(number) => show_varint(number, out),
        CqlValue::Decimal(decimal) => write!(out, "{decimal}"),
        CqlValue::Double(number) => show_float(*number, number, out),
        CqlValue::Float(number) => show_float(f64::from(*number), number, out),
        CqlValue::Boolean(boolean) => out.write_str(match (boolean, style) {
            (true, Style::Literal) => "true",
            (false, Style::Literal) => "false",
            (true, _) => "True",
            (false, _) => "False",
        }),
        CqlValue::Blob(bytes) | CqlValue::Custom(bytes) => {
            out.write_str("0x")?;
            bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
        }
        CqlValue::Uuid(uuid) | CqlValue::TimeUuid(uuid) => write!(out, "{uuid}"),
        CqlValue::Duration(duration) => write!(out, "{duration}"),
        CqlValue::Timestamp(timestamp) => show_in_quotes(timestamp, style, out),
        CqlValue::Date(date) => show_in_quotes(date, style, out),
        CqlValue::Time(time) => show_in_quotes(time, style, out),
        CqlValue::Inet(address) => show_in_quotes(address, style, out),
        CqlValue::List(values) | CqlValue::Vector(values) => {
            show_all(["[", "]"], values, out, |value, out| {
                show(value, style.inside(), out)
            })
        }
        CqlValue::Set(values) => show_all(["{", "}"], values, out, |value, out| {
            show(value, style.inside(), out)
        }),
        CqlValue::Tuple(values) => show_all(["(", ")"], values, out, |value, out| {
            show(value, style.inside(), out)
        }),
        CqlValue::Map(entries) => show_all(["{", "}"], entries, out, |(key, value), out| {
            show(key, style.inside(), out)?;
            out.write_str(": ")?;
            show(value, style.inside(), out)
        }),
        CqlValue::Udt(fields) => show_all(["{", "}"], fields, out, |(name, value), out| {
            write!(out, "{name}: ")?;
            show(value, style.inside(), out)
        }),
    }
}

fn show_all<T>(
    [open, close]: [&str; 2],
    items: &[T],
    out: &mut fmt::Formatter<'_>,
    mut show_one: impl FnMut(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    out.write_str(open)?;
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.write_str(", ")?;
        }
        show_one(item, out)?;
    }
    out.write_str(close)
}

fn show_quoted(text: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    out.write_char('\'')?;
    for (index, part) in text.split('\'').enumerate() {
        if index > 0 {
            out.write_str("''")?;
        }
        out.write_str(part)?;
    }
    out.write_char('\'')
}

fn show_in_quotes(value: &impl fmt::Display, style: Style, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if style == Style::TopLevel {
        write!(out, "{value}")
    } else {
        write!(out, "'{value}'")
    }
}

/// Infinities as CQL spells them; `shown` is the number in its own width.
fn show_float(number: f64, shown: &impl fmt::Debug, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if number.is_nan() {
        return out.write_str("NaN");
    }
    if number.is_infinite() {
        return out.write_str(if number > 0.0 { "Infinity" } else { "-Infinity" });
    }
    // The alternate flag would break lines of structures; a number has none.
    out.write_str(&format!("{shown:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Date, Timestamp};

    #[test]
    fn text_is_quoted_inside_collections_only() {
        let text = || CqlValue::Text("it's".into());
        assert_eq!(text().to_string(), "it's");
        assert_eq!(format!("{:#}", text()), "'it''s'");
        assert_eq!(
            CqlValue::List(vec![text(), CqlValue::Null]).to_string(),
            "['it''s', null]"
        );
    }

    #[test]
    fn compound_values_look_like_cql() {
        let entry = (CqlValue::Int(1), CqlValue::Boolean(true));
        assert_eq!(CqlValue::Map(vec![entry.clone()]).to_string(), "{1: True}");
        assert_eq!(format!("{:#}", CqlValue::Map(vec![entry])), "{1: true}");
        let udt = CqlValue::Udt(vec![("day".into(), CqlValue::Date(Date(1 << 31)))]);
        assert_eq!(udt.to_string(), "{day: '1970-01-01'}");
        assert_eq!(
            CqlValue::Tuple(vec![CqlValue::Blob(vec![0xca, 0xfe])]).to_string(),
            "(0xcafe)"
        );
    }

    #[test]
    fn scalars_are_bare_at_the_top() {
        assert_eq!(
            CqlValue::Timestamp(Timestamp(0)).to_string(),
            "1970-01-01 00:00:00.000000+0000"
        );
        assert_eq!(CqlValue::Float(0.1).to_string(), "0.1");
        assert_eq!(CqlValue::Double(f64::NEG_INFINITY).to_string(), "-Infinity");
        assert_eq!(CqlValue::Double(1e100).to_string(), "1e100");
    }
}
