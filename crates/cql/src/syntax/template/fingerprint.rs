//! Fingerprints: what identifies the text of a template, whatever of it is kept.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::syntax::cut::cut_text;

/// How many bytes of a template's text are kept: see [`Template::MAX_LEN`](super::Template::MAX_LEN).
pub(super) const MAX_LEN: usize = 8 * 1024;

/// 64 bits that identify a template, the same on every machine and in every version.
///
/// They are the first 64 of the SHA-256 of the template's whole text in UTF-8 (behind a zero byte if the text
/// did not parse), so that nobody can write a statement that takes the place of another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub u64);

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// What parses never has the fingerprint of what does not.
#[derive(Clone, Copy)]
pub(super) enum Domain {
    Parsed,
    Unparsed,
}

impl Domain {
    pub(super) fn digest(self, text: &str) -> [u8; 32] {
        match self {
            Self::Parsed => Sha256::digest(text),
            Self::Unparsed => Sha256::new().chain_update([0]).chain_update(text).finalize(),
        }
        .into()
    }
}

/// The text of one statement of a batch: cut off as its template is where it is sent on its own.
pub(super) fn child_text(text: String) -> String {
    if text.len() <= MAX_LEN {
        return text;
    }
    let digest = Domain::Parsed.digest(&text);
    cut_text(text, MAX_LEN, &digest)
}
