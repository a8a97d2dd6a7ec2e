//! How many of the last requests have failed.

/// The last requests, and which of them failed.
#[derive(Debug, Default)]
pub(super) struct RecentErrors {
    has_failed: Vec<bool>,
    next: usize,
    failed: usize,
}

/// As many as say something of a few per cent.
const LAST: usize = 1_000;
/// Of fewer nothing is said.
const FEWEST: usize = 100;

impl RecentErrors {
    pub(super) fn count(&mut self, has_failed: bool) {
        if self.has_failed.len() < LAST {
            self.has_failed.push(has_failed);
        } else {
            self.failed -= usize::from(std::mem::replace(&mut self.has_failed[self.next], has_failed));
            self.next = (self.next + 1) % LAST;
        }
        self.failed += usize::from(has_failed);
    }

    /// The share of failures among the last thousand; none among too few.
    #[allow(clippy::cast_precision_loss, reason = "a thousand at most")]
    pub(super) fn rate(&self) -> Option<f64> {
        let count = self.has_failed.len();
        (count >= FEWEST).then(|| self.failed as f64 / count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_failures_are_forgotten() {
        let mut errors = RecentErrors::default();
        (0..99).for_each(|_| errors.count(true));
        assert_eq!(errors.rate(), None, "of too few");
        (0..901).for_each(|_| errors.count(false));
        assert_eq!(errors.rate(), Some(0.099));
        (0..50).for_each(|_| errors.count(false));
        assert_eq!(errors.rate(), Some(0.049));
    }
}
