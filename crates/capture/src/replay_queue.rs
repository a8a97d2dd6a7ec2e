//! The hand-over of recorded traffic: it loses nothing, and the reader waits for the auditor.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    Capture,
    queue::{Backlog, lock, weight},
};

/// Captures on their way from the reader of recorded traffic to the auditor, in order.
///
/// Two buffers change hands: the reader fills the back one while the auditor empties the front one. So
/// neither of the two threads touches what the other one uses but once for many captures.
#[derive(Debug)]
pub struct ReplayQueue {
    /// Room in the back buffer, in bytes; what the auditor has taken of it comes on top.
    capacity: usize,
    back: Mutex<BackBuffer>,
    /// Captures that the auditor has taken and not processed. Other threads only read its length.
    front: Mutex<VecDeque<Capture>>,
    /// Whether the reader waits for the queue to be empty.
    is_awaited: Mutex<bool>,
    /// That it waits, or that it is empty.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct BackBuffer {
    captures: Vec<Capture>,
    /// Room that they take up, in bytes.
    weight: usize,
}

impl ReplayQueue {
    /// A queue in which captures of up to `capacity` bytes wait for the auditor to take them, each with what
    /// it takes to hold it.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            back: Mutex::default(),
            front: Mutex::default(),
            is_awaited: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Hands over a capture of `len` bytes as soon as there is room for it.
    #[inline]
    pub(super) fn offer(&self, len: usize, capture: impl FnOnce() -> Capture) {
        let weight = weight(len);
        loop {
            if let Some(mut back) = self.with_room_for(weight) {
                back.push(weight, capture);
                return;
            }
            std::thread::sleep(FULL);
        }
    }

    #[inline]
    fn with_room_for(&self, weight: usize) -> Option<MutexGuard<'_, BackBuffer>> {
        let back = lock(&self.back);
        // A capture that is larger than all the room goes through an empty buffer.
        (back.weight == 0 || back.weight + weight <= self.capacity).then_some(back)
    }

    /// Takes up to `most` captures, oldest first, and returns how many there were: fewer only where no more
    /// wait. [`waiting`](Self::waiting) blocks until that is done.
    #[inline]
    pub fn take(&self, most: usize, mut each: impl FnMut(Capture)) -> usize {
        let mut front = lock(&self.front);
        let mut taken = 0;
        while taken < most {
            if front.is_empty() {
                self.swap(&mut front);
            }
            let Some(capture) = front.pop_front() else {
                break;
            };
            each(capture);
            taken += 1;
        }
        drop(front);
        if taken < most {
            self.say_empty();
        }
        taken
    }

    fn say_empty(&self) {
        let mut is_awaited = lock(&self.is_awaited);
        if std::mem::take(&mut *is_awaited) {
            self.changed.notify_all();
        }
    }

    /// Sleeps for `longest`, but not while the reader [waits for the queue to be empty](Self::wait_until_empty).
    pub(super) fn sleep(&self, longest: Duration) {
        // The last ones may have been as many as were asked for.
        if self.waiting() == 0 {
            self.say_empty();
        }
        let is_awaited = lock(&self.is_awaited);
        let slept = self
            .changed
            .wait_timeout_while(is_awaited, longest, |is_awaited| !*is_awaited);
        drop(slept.unwrap_or_else(PoisonError::into_inner));
    }

    /// Gives the empty front buffer to the reader in exchange for the one that it has filled.
    fn swap(&self, front: &mut VecDeque<Capture>) {
        let empty = Vec::from(std::mem::take(front));
        let mut back = lock(&self.back);
        *front = std::mem::replace(&mut back.captures, empty).into();
        back.weight = 0;
    }

    /// How many captures wait.
    pub fn waiting(&self) -> usize {
        // The back buffer first: what the auditor takes from it meanwhile is counted in front.
        let back = lock(&self.back).captures.len();
        back + lock(&self.front).len()
    }

    /// Bytes that wait for the auditor to take them.
    pub fn waiting_bytes(&self) -> usize {
        lock(&self.back).weight
    }

    /// Waits until no capture waits, and wakes the auditor for that; it may still process the last ones, under the lock of its
    /// window.
    pub fn wait_until_empty(&self) {
        let mut is_awaited = lock(&self.is_awaited);
        while self.waiting() > 0 {
            *is_awaited = true;
            self.changed.notify_all();
            is_awaited = self
                .changed
                .wait(is_awaited)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn backlog(&self) -> Backlog {
        Backlog {
            chunks: self.waiting(),
            bytes: self.waiting_bytes(),
            dropped_bytes: 0,
        }
    }

    /// Takes the oldest capture.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn pop(&self) -> Option<Capture> {
        let mut oldest = None;
        self.take(1, |capture| oldest = Some(capture));
        oldest
    }
}

impl BackBuffer {
    /// Adds a capture, which is made in its place.
    #[inline]
    fn push(&mut self, weight: usize, capture: impl FnOnce() -> Capture) {
        self.weight += weight;
        self.captures.extend(std::iter::once_with(capture));
    }
}

/// How long the reader sleeps where there is no room: the auditor empties a good part of the buffer
/// meanwhile.
const FULL: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::capture;

    #[test]
    fn what_waits_for_room_comes_out_in_order_and_is_counted_until_then() {
        let queue = ReplayQueue::new(1 << 20);
        let (mut given, mut taken) = (0, 0);
        for _ in 0..10 {
            for _ in 0..10 {
                queue.offer(100, || capture(given, 100));
                given += 1;
            }
            // Some stay that were taken together with these.
            for _ in 0..7 {
                assert_eq!(queue.pop().unwrap().begun, taken);
                taken += 1;
            }
            let there = usize::try_from(given - taken).unwrap();
            assert_eq!((queue.waiting(), queue.backlog().chunks), (there, there));
        }
        while let Some(capture) = queue.pop() {
            assert_eq!(capture.begun, taken);
            taken += 1;
        }
        assert_eq!((taken, queue.waiting_bytes(), queue.waiting()), (given, 0, 0));
        queue.wait_until_empty();
    }

    /// The auditor ends connections once it has found the queue empty: it must not seem empty before it is.
    #[test]
    fn fewer_than_asked_for_means_that_no_more_wait() {
        let queue = ReplayQueue::new(1 << 20);
        let offer = |number| queue.offer(1, || capture(number, 1));
        (0..10).for_each(offer);
        assert_eq!(queue.take(5, |_| ()), 5);
        (10..50).for_each(offer);
        let mut expected = 5;
        let taken = queue.take(32, |capture| {
            assert_eq!(capture.begun, expected);
            expected += 1;
        });
        assert_eq!((taken, queue.waiting()), (32, 13));
    }

    #[test]
    fn no_more_comes_than_there_is_room_for_until_the_auditor_takes_it() {
        let room = 10 * weight(100);
        let queue = ReplayQueue::new(room);
        let push = |number: u64, length: usize| {
            let back = queue.with_room_for(weight(length));
            let is_room = back.is_some();
            if let Some(mut back) = back {
                back.push(weight(length), || capture(number, length));
            }
            is_room
        };
        for number in 0..10 {
            assert!(push(number, 100));
        }
        assert!(!push(10, 0));
        assert_eq!(queue.waiting_bytes(), room);
        assert_eq!(queue.take(1, |capture| assert_eq!(capture.begun, 0)), 1);
        // Alone it has room, however large it is.
        assert!(push(10, 2 * room));
        assert!(!push(11, 0));
        assert_eq!(queue.waiting(), 10);
    }

    /// However long the auditor would sleep, and however many windows a capture has.
    #[test]
    fn the_end_of_a_window_wakes_the_auditor() {
        const LAST: u64 = u64::MAX;
        let queue = ReplayQueue::new(1 << 20);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut is_last = false;
                loop {
                    // As the auditor does: never more than there were.
                    if queue.waiting() > 0 {
                        queue.take(7, |capture| is_last |= capture.begun == LAST);
                    }
                    if is_last {
                        return;
                    }
                    queue.sleep(Duration::from_secs(3_600));
                }
            });
            for window in 0..1_000 {
                for number in 0..window % 20 {
                    queue.offer(100, || capture(number, 100));
                }
                queue.wait_until_empty();
                assert_eq!(queue.waiting(), 0);
            }
            queue.offer(100, || capture(LAST, 100));
            queue.wait_until_empty();
        });
    }
}
