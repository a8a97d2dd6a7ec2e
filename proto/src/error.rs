//! What can go wrong between bytes and values: one error for reading, one for writing.
//!
//! Both are small and hold no text from the wire, so that they can be counted and logged without leaking
//! values.

use thiserror::Error;

/// Bytes that do not say what the specification says they say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("cannot read {what} at byte {offset}: {kind}")]
pub struct DecodeError {
    /// The field or element that was being read, in the specification's words.
    pub what: &'static str,
    /// Where it starts going wrong, in bytes from the start of the body (or of the value, for typed values).
    pub offset: usize,
    /// What is wrong there.
    pub kind: DecodeErrorKind,
}

/// Why a field cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The bytes end before the field does.
    #[error("the bytes end early")]
    Truncated,
    /// Text that is not UTF-8 (or not ASCII, for `ascii`).
    #[error("the text is not valid")]
    NotText,
    /// A length or count that may not be negative.
    #[error("{0} is a negative length")]
    NegativeLength(i32),
    /// A number that the field does not allow: a code or a length, never a user's value.
    #[error("{0} is not allowed here")]
    Invalid(i64),
    /// A value outside the range of its type, which is not repeated here.
    #[error("the value is out of range")]
    OutOfRange,
    /// A value whose length does not fit its type.
    #[error("{0} bytes do not make a value of this type")]
    WrongLength(usize),
    /// Types or values nested deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// An announced size over the limit that bounds memory.
    #[error("{announced} bytes are announced, {limit} are allowed")]
    TooLarge {
        /// The size that the sender announced, in bytes.
        announced: usize,
        /// The limit that it exceeds, in bytes.
        limit: usize,
    },
    /// Compressed bytes that do not decompress to what was announced.
    #[error("the compressed bytes are damaged")]
    Decompression,
    /// The envelope is compressed, and no algorithm was agreed on (or it was not seen).
    #[error("compressed, with no algorithm negotiated")]
    UnknownCompression,
    /// A checksum that does not match.
    #[error("checksum {found:#x} where {expected:#x} was computed")]
    Checksum {
        /// What the wire says.
        found: u32,
        /// What the bytes give.
        expected: u32,
    },
}

/// How deep types and values may nest: far more than Cassandra's own schema allows in practice, and little
/// enough that no input exhausts the stack.
pub const MAX_DEPTH: usize = 64;

/// A value that has no form on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// Longer than its length field can say.
    #[error("{what} has length {length}, at most {limit} fits")]
    TooLong {
        /// The field, in the specification's words.
        what: &'static str,
        /// Its length (bytes or elements).
        length: usize,
        /// The largest that its length field can hold.
        limit: usize,
    },
    /// The protocol version has no such field.
    #[error("{what} does not exist in this protocol version")]
    Unsupported {
        /// The field, in the specification's words.
        what: &'static str,
    },
    /// A value that does not belong to the type it is written as.
    #[error("the value does not fit type {what}")]
    TypeMismatch {
        /// The type.
        what: &'static str,
    },
    /// Compression failed.
    #[error("cannot compress")]
    Compression,
}
