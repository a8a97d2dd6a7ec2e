//! Writers of the forms of a capture that [`rewrapped`](super::rewrapped) tries.

pub(crate) mod bytes;
pub(crate) mod files;
pub(crate) mod packets;
pub(crate) mod segments;
