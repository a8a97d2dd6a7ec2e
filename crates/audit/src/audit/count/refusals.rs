//! Clients of whom the server refuses everything: an application with a wrong password or without
//! permissions, or an attacker.

use std::{cmp::Reverse, sync::Arc, time::Duration};

use rustc_hash::FxHashMap;

use cqlens_capture::Moment;
use cqlens_window::Coverage;

/// What was refused of each client since it was last granted anything. Spans windows.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    by_client: FxHashMap<Arc<str>, Refused>,
}

#[derive(Debug, Clone, Copy)]
struct Refused {
    /// In all, and since the window began.
    requests: u64,
    here: u64,
    first: Moment,
    last: Moment,
}

impl Refusals {
    /// Clients that are followed; beyond, those of whom most was refused.
    const MOST: usize = 1_024;

    /// Fewer refusals are a mistake in one statement.
    const ENOUGH: u64 = 10;

    /// For how long nothing else came.
    const LONG: Duration = Duration::from_secs(60);

    /// The server refused a request at `at`.
    #[cold]
    pub(crate) fn refuse(&mut self, client: &Arc<str>, at: Moment) {
        if let Some(refused) = self.by_client.get_mut(client) {
            refused.requests += 1;
            refused.here += 1;
            refused.first = refused.first.min(at);
            refused.last = refused.last.max(at);
            return;
        }
        if self.by_client.len() >= Self::MOST {
            self.forget_lightest();
        }
        let refused = Refused {
            requests: 1,
            here: 1,
            first: at,
            last: at,
        };
        self.by_client.insert(Arc::clone(client), refused);
    }

    /// The server has run a statement of an application.
    #[cold]
    pub(crate) fn grant(&mut self, client: &Arc<str>) {
        self.by_client.remove(client);
    }

    /// No client was refused anything since it was last granted something, as nearly always.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_client.is_empty()
    }

    /// Names those of whom everything was refused, for a minute and in this window, too.
    pub(crate) fn tell(&mut self, coverage: &mut Coverage) {
        // Clients that have gone are forgotten.
        self.by_client.retain(|_, refused| refused.here > 0);
        for (client, refused) in &mut self.by_client {
            let requests = std::mem::take(&mut refused.here);
            if refused.requests >= Self::ENOUGH && refused.last.since(refused.first) >= Self::LONG {
                *coverage.refused_clients.entry(client.to_string()).or_default() += requests;
            }
        }
    }

    fn forget_lightest(&mut self) {
        let mut counts: Vec<_> = self.by_client.values().map(|refused| refused.requests).collect();
        counts.sort_unstable_by_key(|&requests| Reverse(requests));
        let lightest_kept = counts[Self::MOST / 2];
        self.by_client
            .retain(|_, refused| refused.requests > lightest_kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqlens_capture::Clock;

    fn named(refusals: &mut Refusals) -> Vec<(String, u64)> {
        let mut coverage = Coverage::default();
        refusals.tell(&mut coverage);
        coverage.refused_clients.into_iter().collect()
    }

    #[test]
    fn a_client_is_named_once_nothing_but_refusals_came_for_a_minute() {
        let start = Clock::start().now();
        let (app, other): (Arc<str>, Arc<str>) = ("app".into(), "other".into());
        let mut refusals = Refusals::default();
        for second in 0..50 {
            refusals.refuse(&app, start.after(Duration::from_secs(second)));
            refusals.refuse(&other, start.after(Duration::from_secs(second)));
        }
        assert_eq!(named(&mut refusals), [], "not for a minute yet");
        refusals.grant(&other);
        for second in 50..=70 {
            refusals.refuse(&app, start.after(Duration::from_secs(second)));
            refusals.refuse(&other, start.after(Duration::from_secs(second)));
        }
        assert_eq!(named(&mut refusals), [("app".to_owned(), 21)]);
        assert_eq!(named(&mut refusals), [], "it has stopped");
    }

    #[test]
    fn a_flood_of_names_does_not_hide_who_is_refused_all_the_time() {
        let start = Clock::start().now();
        let app: Arc<str> = "app".into();
        let mut refusals = Refusals::default();
        for number in 0..20_000 {
            let at = start.after(Duration::from_millis(number * 10));
            refusals.refuse(&format!("junk {number}").into(), at);
            if number % 100 == 0 {
                refusals.refuse(&app, at);
            }
        }
        assert!(refusals.by_client.len() <= Refusals::MOST);
        assert_eq!(named(&mut refusals), [("app".to_owned(), 200)]);
    }
}
