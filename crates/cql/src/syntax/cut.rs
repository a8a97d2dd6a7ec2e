//! Long names and long templates, cut off with a hash behind: what a client sends is not kept at whatever
//! length it has, and two texts that differ stay two.

use std::borrow::Cow;
use std::fmt::Write;

use sha2::{Digest, Sha256};

/// The longest name that is kept as it is. Cassandra allows keyspaces and tables 48 characters, later
/// versions 222, ScyllaDB 192; columns may have 65,535 bytes, and those that people write have a few dozen.
pub(crate) const MAX_NAME_LEN: usize = 256;

/// A name as it is kept: one of more than `MAX_NAME_LEN` bytes is its beginning, `…`, and 32 hex digits of
/// the SHA-256 of all of it. That is longer than any name that is kept whole, so it is equal to none.
#[must_use]
pub fn cut_name(name: &str) -> Cow<'_, str> {
    if name.len() <= MAX_NAME_LEN {
        return Cow::Borrowed(name);
    }
    Cow::Owned(cut_at(
        name,
        MAX_NAME_LEN - HEX_DIGITS,
        &Sha256::digest(name).into(),
    ))
}

/// A text of at most `limit` bytes: a longer one is its beginning, `…`, and 32 hex digits of `digest`, which
/// is that of all of it.
pub(super) fn cut_text(text: String, limit: usize, digest: &[u8; 32]) -> String {
    if text.len() <= limit {
        return text;
    }
    cut_at(&text, limit - ELLIPSIS.len() - HEX_DIGITS, digest)
}

const ELLIPSIS: &str = "…";

/// 128 bits: nobody finds two texts that share them.
const HEX_DIGITS: usize = 32;

fn cut_at(text: &str, mut end: usize, digest: &[u8; 32]) -> String {
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut cut = String::with_capacity(end + ELLIPSIS.len() + HEX_DIGITS);
    cut.push_str(&text[..end]);
    cut.push_str(ELLIPSIS);
    for byte in &digest[..HEX_DIGITS / 2] {
        // Writing to a string cannot fail.
        let _ = write!(cut, "{byte:02x}");
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_and_stay_different() {
        let name = |end: &str| "é".repeat(100_000) + end;
        let (one, other) = (name("1"), name("2"));
        let (one, other) = (cut_name(&one), cut_name(&other));
        assert_ne!(one, other);
        assert!(one.len() < 300 && one.starts_with('é') && one.contains('…'));
    }

    #[test]
    fn a_cut_name_is_no_name_that_is_kept_whole() {
        let whole = "n".repeat(MAX_NAME_LEN);
        assert_eq!(cut_name(&whole), whole);
        for name in ["n".repeat(MAX_NAME_LEN + 1), "é".repeat(200), "😀".repeat(100)] {
            let cut = cut_name(&name).into_owned();
            assert!(cut.len() > MAX_NAME_LEN, "{cut}");
            assert_ne!(cut_name(&cut), cut, "what pretends to be cut is cut again");
        }
    }
}
