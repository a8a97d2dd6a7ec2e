//! Why a term has no value here.

use std::borrow::Cow;

use crate::footprint::Reason;

/// Why a term has no value here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::plan) enum Fault {
    /// Nothing is bound.
    Unbound,
    /// The server makes a value of its own: each time another (`uuid()`), or within one statement the same
    /// (`current_date()`, named here).
    Generated(Option<&'static str>),
    /// The server computes it in a way that is not followed here.
    NotFollowed,
    /// The server refuses it.
    Refused(Reason, Cow<'static, str>),
}

impl Fault {
    /// The reason that stands in reports.
    pub(in crate::plan) fn reason(&self) -> Reason {
        match self {
            Self::Unbound => Reason::Unbound,
            Self::Generated(_) | Self::NotFollowed => Reason::FunctionValue,
            Self::Refused(reason, _) => *reason,
        }
    }

    pub(in crate::plan) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(Reason::InvalidKey, message.into())
    }

    pub(in crate::plan) fn undecodable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(Reason::ValueUndecodable, message.into())
    }
}
