//! Names as CQL writes them.

use std::borrow::Cow;

use crate::syntax::Keyword;

/// A name as CQL must write it: quoted where it would otherwise be read as something else.
pub fn quote(name: &str) -> Cow<'_, str> {
    let mut characters = name.chars();
    let begins = characters.next().is_some_and(|first| first.is_ascii_lowercase());
    let plain =
        |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_';
    if begins && characters.all(plain) && Keyword::of(name).is_none_or(|keyword| !keyword.is_reserved()) {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(format!("\"{}\"", name.replace('"', "\"\"")))
    }
}
