//! The elements of a collection, found by their lengths: what `IN ?` needs, without decoding or allocating.

use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::notation;

/// Iterates over the elements of a list or set, or the keys and values of a map in turn: `<n [int]><element
/// [bytes]>*`.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    cursor: Cursor<'a>,
    left: usize,
}

impl<'a> Elements<'a> {
    /// Starts at the first element of a list or set.
    ///
    /// # Errors
    /// A count that is negative or larger than the bytes allow.
    pub fn of_list(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Elements::start(bytes, 1)
    }

    /// Starts at the first key of a map; each key is followed by its value.
    ///
    /// # Errors
    /// As [`of_list`](Self::of_list).
    pub fn of_map(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Elements::start(bytes, 2)
    }

    fn start(bytes: &'a [u8], parts: usize) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes);
        let left = cursor
            .read("number of elements", notation::count)?
            .saturating_mul(parts);
        // Each element has at least its length.
        if left.saturating_mul(4) > cursor.rest().len() {
            return Err(cursor.error("elements", DecodeErrorKind::Truncated));
        }
        Ok(Elements { cursor, left })
    }

    /// How many are left; keys and values of a map count each.
    pub fn len(&self) -> usize {
        self.left
    }

    /// True if none are left.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// What has not been read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.cursor.rest()
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Option<&'a [u8]>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let element = self.cursor.read("element", notation::bytes);
        if element.is_err() {
            self.left = 0;
        }
        Some(element)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn elements_are_slices_of_the_list() {
        let bytes = [0, 0, 0, 2, 0, 0, 0, 1, 7, 0xff, 0xff, 0xff, 0xff];
        let elements: Result<Vec<_>, _> = Elements::of_list(&bytes).unwrap().collect();
        assert_eq!(elements.unwrap(), [Some(&[7][..]), None]);
    }

    #[test]
    fn a_count_that_the_bytes_cannot_hold_is_refused() {
        assert!(Elements::of_list(&[0x7f, 0xff, 0xff, 0xff, 0]).is_err());
        assert!(Elements::of_map(&[0, 0, 0, 1, 0, 0, 0, 0]).is_err());
    }
}
