//! The Cassandra native protocol and CQL: bytes and text in, values or a typed error out.
//!
//! No sockets, no clock, no async, no logging: everything here is a pure function of its input, so that the
//! proxy, the capture reader, the embedded node, tests and fuzz targets all share it.
//!
//! From the wire inwards: [`walk`] passes over envelopes and segments however they are cut into chunks; with
//! it, [`cutter`] finds boundaries in the data path and [`stream`] joins whole envelopes where the bytes are
//! owned ([`segment`], [`compress`]). [`envelope`] is what they yield, [`message`] decodes bodies, [`types`]
//! decodes values. [`notation`] and [`cursor`] are the specification's alphabet.

pub mod compress;
pub mod cursor;
pub mod cutter;
pub mod envelope;
pub mod error;
pub mod message;
pub mod notation;
pub mod outgoing;
pub mod segment;
pub mod stream;
pub mod types;
pub mod walk;
