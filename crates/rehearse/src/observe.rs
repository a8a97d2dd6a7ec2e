//! The observer of an audit that converts each exchange once and hands it to all that want it.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use cqlens_audit::audit::observe::{Observe, ObservedExchange, Observer};

use crate::{
    convert::Converter, digest::DigestKey, exchange::RecordedExchange, left_out::LeftOut,
    left_out::LeftOutCounts,
};

/// What wants exchanges: a recording, another cluster. In the auditor's thread: must not wait.
pub trait TakeExchange: Send + Sync {
    /// Whether it wants any now; as cheap as a load.
    fn is_on(&self) -> bool {
        true
    }

    /// Takes an exchange.
    fn take(&self, exchange: &Arc<RecordedExchange>);
}

/// Converts what an audit sees and hands it on.
pub struct Exchanges {
    converter: Mutex<Converter>,
    takers: Vec<Arc<dyn TakeExchange>>,
    left_out: Arc<LeftOutCounts>,
}

impl Exchanges {
    /// Hands exchanges, whose digests have that key, to `takers`, and counts what is left out.
    pub fn observer(
        key: DigestKey,
        takers: Vec<Arc<dyn TakeExchange>>,
        left_out: Arc<LeftOutCounts>,
    ) -> Observer {
        Observer::new(Arc::new(Self {
            converter: Mutex::new(Converter::new(key)),
            takers,
            left_out,
        }))
    }
}

impl Observe for Exchanges {
    fn is_on(&self) -> bool {
        self.takers.iter().any(|taker| taker.is_on())
    }

    fn see(&self, observed: &ObservedExchange<'_>) {
        // Only the auditor takes the lock; after a panic of its, numbers go on.
        let converted = {
            let mut converter = self.converter.lock().unwrap_or_else(PoisonError::into_inner);
            converter.convert(observed)
        };
        match converted {
            Ok(exchange) => {
                let exchange = Arc::new(exchange);
                let takers = self.takers.iter().filter(|taker| taker.is_on());
                takers.for_each(|taker| taker.take(&exchange));
            }
            Err(why) => self.left_out.add(why, 1),
        }
    }

    fn miss(&self, requests: u64) {
        self.left_out.add(LeftOut::Unseen, requests);
    }
}

impl fmt::Debug for Exchanges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Exchanges(to {})", self.takers.len())
    }
}
