//! How many requests of a connection may be under way, so that what they answer has a bound.
//!
//! How large an answer will be is not known before it is there, so the connection's recent answers
//! have to tell: each request under way is taken to be as large as the largest of them, which
//! fades as smaller ones come. The sum may not go beyond [`BUDGET`]; one request always may. A
//! connection begins with a guess that lets a few requests through and soon learns.

use std::cell::Cell;

/// Requests that may be under way at once, however small their answers: as many as Cassandra's driver for Java has on a
/// connection unless it is told otherwise. With fewer, reads wait unread behind writes that wait for the drive.
const MAX_REQUESTS: usize = 1024;
/// Bytes that the answers to all requests under way may be taken to have.
const BUDGET: usize = 4 << 20;
/// What an answer is taken to have before there was one.
const FIRST_GUESS: usize = 1 << 20;
/// With each smaller answer, one part in so many of the difference fades.
const FADING: usize = 8;

/// The requests under way on a connection.
#[derive(Debug)]
pub(crate) struct Window {
    under_way: Cell<usize>,
    /// Bytes of an answer.
    expected: Cell<usize>,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            under_way: Cell::new(0),
            expected: Cell::new(FIRST_GUESS),
        }
    }
}

impl Window {
    /// May one more begin?
    pub(crate) fn has_room(&self) -> bool {
        let under_way = self.under_way.get();
        let bytes = (under_way + 1).saturating_mul(self.expected.get());
        under_way == 0 || (under_way < MAX_REQUESTS && bytes <= BUDGET)
    }

    /// Is nothing under way?
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.get() == 0
    }

    /// A request begins.
    pub(crate) fn begin(&self) {
        self.under_way.set(self.under_way.get() + 1);
    }

    /// A request's answer has so many bytes.
    pub(crate) fn answered(&self, bytes: usize) {
        let expected = self.expected.get();
        let next = match expected.checked_sub(bytes) {
            Some(larger) => expected - larger / FADING,
            None => bytes,
        };
        self.expected.set(next);
    }

    /// A request has ended.
    pub(crate) fn end(&self) {
        let under_way = self.under_way.get();
        assert!(under_way > 0, "what ends has begun");
        self.under_way.set(under_way - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(window: &Window) -> usize {
        let mut begun = 0;
        while window.has_room() {
            window.begin();
            begun += 1;
        }
        begun
    }

    fn empty(window: &Window, count: usize, bytes: usize) {
        for _ in 0..count {
            window.answered(bytes);
            window.end();
        }
    }

    #[test]
    fn small_answers_let_many_requests_through() {
        let window = Window::default();
        let first = fill(&window);
        assert_eq!(first, BUDGET / FIRST_GUESS);
        empty(&window, first, 100);
        let mut begun = 0;
        for _ in 0..5 {
            begun = fill(&window);
            empty(&window, begun, 100);
        }
        assert_eq!(begun, MAX_REQUESTS);
    }

    #[test]
    fn one_large_answer_holds_the_next_ones_back() {
        let window = Window::default();
        let begun = fill(&window);
        empty(&window, begun, 2 << 20);
        assert_eq!(fill(&window), 2);
    }

    #[test]
    fn one_request_always_goes_through() {
        let window = Window::default();
        window.answered(usize::MAX);
        assert_eq!(fill(&window), 1);
        assert!(!window.is_idle());
    }
}
