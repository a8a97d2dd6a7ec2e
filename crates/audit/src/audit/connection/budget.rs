//! How much an auditor keeps of all its connections together: requests that wait for their responses, and
//! envelopes that are being put together.

use cqlens_capture::memory::Part;

/// The bytes that an auditor keeps. Its own thread alone counts them: reading and writing are enough.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Part);

impl Budget {
    /// As many bytes as `part` has.
    pub(crate) fn of(part: Part) -> Self {
        Self(part)
    }

    /// Whether there is room for so many more bytes; what finds none is left out, and counted.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        let has_room = self.0.has_room_for(bytes);
        if !has_room {
            self.0.count_evicted(1);
        }
        has_room
    }

    pub(crate) fn take(&self, bytes: usize) {
        self.0.set(self.taken() + bytes);
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.0.set(self.taken() - bytes);
    }

    fn taken(&self) -> usize {
        self.0.used()
    }

    #[cfg(test)]
    pub(crate) fn is_untouched(&self) -> bool {
        self.taken() == 0
    }
}

/// What the envelope that is being put together takes of a budget.
///
/// All of them together take half of it at most: a server whose answers are long must not cost other
/// connections their requests.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    budget: Budget,
    bytes: usize,
}

impl BudgetShare {
    /// Nothing yet.
    pub(crate) fn of(budget: Budget) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Takes `bytes` in all, from now on; takes nothing and says no where there is no room for more.
    pub(crate) fn change_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let fits = more == 0 || self.budget.taken() + more <= self.budget.0.limit() / 2;
        if !fits {
            self.budget.0.count_evicted(1);
        }
        let bytes = if fits { bytes } else { 0 };
        if bytes != self.bytes {
            self.budget.give_back(self.bytes);
            self.budget.take(bytes);
            self.bytes = bytes;
        }
        fits
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_take_half_at_most_and_give_back_what_they_took() {
        let budget = Budget::of(Part::new("test", 1_000));
        let (mut one, mut other) = (BudgetShare::of(budget.clone()), BudgetShare::of(budget.clone()));
        assert!(one.change_to(300) && other.change_to(100) && one.change_to(400));
        assert!(!other.change_to(101), "there are 500 for both");
        assert_eq!(budget.taken(), 400, "the one that is given up has nothing");
        assert!(budget.has_room_for(600) && !budget.has_room_for(601));
        assert!(one.change_to(10) && other.change_to(490));
        drop(one);
        assert_eq!(budget.taken(), 490);
        drop(other);
        assert!(budget.is_untouched());
    }
}
