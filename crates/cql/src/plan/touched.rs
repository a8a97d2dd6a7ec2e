//! What one execution touches, before it becomes a footprint.

use crate::footprint::{Count, Footprint, Reason};

use super::keys::Counted;
use super::refusal::Refusal;
use super::term::Fault;

/// What an execution touches, its keys being in a buffer that may hold those of others too.
#[derive(Debug, Clone, Copy)]
pub(super) enum Touched {
    Counted(Counted),
    Scan,
    TokenRange(f64),
    Index,
    Unknown(Reason),
}

impl Touched {
    pub(super) fn of(counted: Result<Counted, Fault>) -> Result<Self, Refusal> {
        match counted {
            Ok(counted) => Ok(Self::Counted(counted)),
            Err(fault @ Fault::Refused(..)) => Err(fault.into()),
            Err(fault) => Ok(Self::Unknown(fault.reason())),
        }
    }

    pub(super) fn footprint(self) -> Footprint {
        let count = match self {
            Self::Counted(Counted {
                named,
                is_bound: true,
                incomplete,
                ..
            }) => Count::AtLeast(named, incomplete.unwrap_or(Reason::FunctionValue)),
            Self::Counted(Counted { named, .. }) => Count::Exact(named),
            Self::Scan => Count::Scan,
            Self::TokenRange(share) => Count::TokenRange { share },
            Self::Index => Count::Index,
            Self::Unknown(reason) => return Footprint::unknown(reason),
        };
        let keys_missing = match self {
            Self::Counted(counted) => counted.incomplete,
            _ => None,
        };
        Footprint { count, keys_missing }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        let reason = fault.reason();
        match fault {
            Fault::Refused(_, message) => Self::bind(reason, message),
            Fault::Unbound => Self::bind(reason, "nothing is bound"),
            Fault::Generated(_) | Fault::NotFollowed => Self::bind(reason, "computed by the server"),
        }
    }
}
