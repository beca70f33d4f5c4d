//! A bound on how many of something there are at once, in all runtimes together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Clone, Debug)]
pub struct Bound {
    taken: Arc<AtomicUsize>,
    max: usize,
}

/// One place, given back when dropped.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Bound {
    pub fn new(max: usize) -> Self {
        Self { taken: Arc::default(), max }
    }

    /// One that only counts.
    pub fn none() -> Self {
        Self::new(usize::MAX)
    }

    /// How many there are.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// A place, whether or not all are taken.
    pub fn place(&self) -> Place {
        self.taken.fetch_add(1, Ordering::Relaxed);
        Place(Arc::clone(&self.taken))
    }

    /// A place, unless all are taken.
    pub fn take(&self) -> Option<Place> {
        let place = Place(Arc::clone(&self.taken));
        (self.taken.fetch_add(1, Ordering::Relaxed) < self.max).then_some(place)
    }

    /// A place though all are taken: for whoever comes in as another goes. Some of those may not have gone yet, or stay.
    pub fn take_beyond(&self) -> Option<Place> {
        let place = Place(Arc::clone(&self.taken));
        let most = self.max + self.max / 16 + 1;
        (self.taken.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
