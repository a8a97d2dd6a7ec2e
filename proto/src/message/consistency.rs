//! `[consistency]` (v5 §3).

use std::fmt;

use crate::cursor::{Cursor, Writer};
use crate::error::DecodeError;
use crate::notation;

/// How many replicas have to answer. Unknown numbers are values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // The names are the specification's.
pub enum Consistency {
    Any,
    One,
    Two,
    Three,
    Quorum,
    All,
    LocalQuorum,
    EachQuorum,
    Serial,
    LocalSerial,
    LocalOne,
    /// A number that the specification does not have.
    Unknown(u16),
}

impl Consistency {
    /// Every level of the specification, at the index that is its number.
    pub const ALL: [Consistency; 11] = [
        Consistency::Any,
        Consistency::One,
        Consistency::Two,
        Consistency::Three,
        Consistency::Quorum,
        Consistency::All,
        Consistency::LocalQuorum,
        Consistency::EachQuorum,
        Consistency::Serial,
        Consistency::LocalSerial,
        Consistency::LocalOne,
    ];

    /// The level with a number.
    #[inline]
    pub fn from_number(number: u16) -> Self {
        Consistency::ALL
            .get(usize::from(number))
            .copied()
            .unwrap_or(Consistency::Unknown(number))
    }

    /// The number on the wire.
    pub const fn number(self) -> u16 {
        match self {
            Consistency::Any => 0,
            Consistency::One => 1,
            Consistency::Two => 2,
            Consistency::Three => 3,
            Consistency::Quorum => 4,
            Consistency::All => 5,
            Consistency::LocalQuorum => 6,
            Consistency::EachQuorum => 7,
            Consistency::Serial => 8,
            Consistency::LocalSerial => 9,
            Consistency::LocalOne => 10,
            Consistency::Unknown(number) => number,
        }
    }

    /// The name that CQL and the specification use, `UNKNOWN` for a number without one.
    pub const fn name(self) -> &'static str {
        match self {
            Consistency::Any => "ANY",
            Consistency::One => "ONE",
            Consistency::Two => "TWO",
            Consistency::Three => "THREE",
            Consistency::Quorum => "QUORUM",
            Consistency::All => "ALL",
            Consistency::LocalQuorum => "LOCAL_QUORUM",
            Consistency::EachQuorum => "EACH_QUORUM",
            Consistency::Serial => "SERIAL",
            Consistency::LocalSerial => "LOCAL_SERIAL",
            Consistency::LocalOne => "LOCAL_ONE",
            Consistency::Unknown(_) => "UNKNOWN",
        }
    }

    #[inline(always)]
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        cursor
            .read("consistency", notation::short)
            .map(Consistency::from_number)
    }

    pub(super) fn encode(self, writer: &mut Writer<'_>) {
        writer.short(self.number());
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// The consistency of the serial phase of a conditional statement: SERIAL or LOCAL_SERIAL, as a client states
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SerialConsistency(pub Consistency);

impl SerialConsistency {
    #[inline(always)]
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        cursor
            .read("serial consistency", notation::short)
            .map(|number| SerialConsistency(Consistency::from_number(number)))
    }

    pub(super) fn encode(self, writer: &mut Writer<'_>) {
        self.0.encode(writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_names_a_level_and_comes_back() {
        for number in 0..20 {
            assert_eq!(Consistency::from_number(number).number(), number);
        }
        assert_eq!(Consistency::from_number(6).name(), "LOCAL_QUORUM");
        assert_eq!(Consistency::from_number(11), Consistency::Unknown(11));
    }
}
