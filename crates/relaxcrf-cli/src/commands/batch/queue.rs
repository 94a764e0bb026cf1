//! Order of the images: those that another run works on come again later.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time before an image that another run works on is tried again.
const PATIENCE: Duration = Duration::from_millis(100);

/// Images in order, with those to be tried again.
#[derive(Debug)]
pub struct Queue(Mutex<State>);

#[derive(Debug)]
struct State {
    next: usize,
    total: usize,
    /// Images to try again, with their times.
    busy: VecDeque<(Instant, usize)>,
}

impl Queue {
    pub fn new(total: usize) -> Self {
        Self(Mutex::new(State { next: 0, total, busy: VecDeque::new() }))
    }

    /// The next image; `None` when there are none left for this caller.
    pub fn take(&self) -> Option<usize> {
        let (due, at) = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if state.next < state.total {
                state.next += 1;
                return Some(state.next - 1);
            }
            state.busy.pop_front()?
        };
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        Some(at)
    }

    /// Puts an image back.
    pub fn later(&self, at: usize) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.busy.push_back((Instant::now() + PATIENCE, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_returns_busy_items_last() {
        let queue = Queue::new(3);
        assert_eq!(queue.take(), Some(0));
        queue.later(0);
        assert_eq!((queue.take(), queue.take()), (Some(1), Some(2)));
        let before = Instant::now();
        assert_eq!(queue.take(), Some(0));
        assert!(before.elapsed() > PATIENCE / 2);
        assert_eq!(queue.take(), None);
    }
}
