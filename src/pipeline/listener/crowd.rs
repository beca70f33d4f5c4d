//! Who is connected: how many in all and from one address, and who has to go when there is no room.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::presence::Presence;
use crate::config::Limits;
use crate::pipeline::bound::{Bound, Place};
use crate::telemetry::Limit;

/// The connections of all runtimes.
#[derive(Clone, Debug)]
pub struct Crowd {
    all: Bound,
    addresses: Arc<Addresses>,
}

#[derive(Debug)]
struct Addresses {
    max: Option<usize>,
    bytes_max: u64,
    // A std mutex: held to count one connection, never across an await.
    held: Mutex<HashMap<IpAddr, Held>>,
}

/// What one address holds.
#[derive(Debug)]
struct Held {
    connections: usize,
    unproven: Arc<Unproven>,
}

/// The bytes of an address's requests that nobody has vouched for yet.
#[derive(Debug)]
pub struct Unproven {
    held: AtomicU64,
    max: u64,
}

impl Unproven {
    /// Adds to what a request holds, by which its body becomes this large. Tells whether that is too much; one request alone
    /// never is, and a few large ones keep no small one out.
    pub fn add(&self, by: u64, request: u64, body: u64) -> bool {
        let all = self.held.fetch_add(by, Relaxed) + by;
        let max = if body > Limits::SMALL_BODY.0 { self.max - self.max / 4 } else { self.max };
        all <= max || all == request + by
    }

    pub fn give_back(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Relaxed);
    }
}

/// A connection's place among all, and among those of its address.
#[derive(Debug)]
pub struct Seat {
    _of_all: Place,
    of_address: Option<AddressPlace>,
}

impl Seat {
    /// Where the bytes of its address are counted, if they are.
    pub fn unproven(&self) -> Option<Arc<Unproven>> {
        self.of_address.as_ref().map(|place| Arc::clone(&place.unproven))
    }
}

#[derive(Debug)]
struct AddressPlace {
    addresses: Arc<Addresses>,
    address: IpAddr,
    unproven: Arc<Unproven>,
}

impl Crowd {
    pub fn new(limits: &Limits) -> Self {
        Self::with(limits.connections, limits.connections_per_address, limits.buffered_per_address().0)
    }

    /// One that counts connections alone.
    pub fn of(all: usize, of_address: Option<usize>) -> Self {
        Self::with(all, of_address, u64::MAX)
    }

    fn with(all: usize, of_address: Option<usize>, bytes_max: u64) -> Self {
        let addresses = Addresses { max: of_address, bytes_max, held: Mutex::default() };
        Self { all: Bound::new(all), addresses: Arc::new(addresses) }
    }

    /// A seat for a connection from `address`, or which bound is in the way. Where there is no room, `make_room` is asked for
    /// somebody who goes. A peer that speaks for many is not counted by its address.
    pub fn seat(&self, address: IpAddr, is_trusted: bool, make_room: impl FnOnce() -> bool) -> Result<Seat, Limit> {
        let of_address = match self.addresses.max.filter(|_| !is_trusted) {
            None => None,
            Some(max) => Some(self.addresses.take(network_of(address), max).ok_or(Limit::ConnectionsPerAddress)?),
        };
        let of_all = self.all.take().or_else(|| make_room().then(|| self.all.take_beyond())?).ok_or(Limit::Connections)?;
        Ok(Seat { _of_all: of_all, of_address })
    }
}

impl Addresses {
    fn take(self: &Arc<Self>, address: IpAddr, max: usize) -> Option<AddressPlace> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let none = || Held { connections: 0, unproven: Arc::new(Unproven { held: AtomicU64::default(), max: self.bytes_max }) };
        let of_address = held.entry(address).or_insert_with(none);
        if of_address.connections >= max {
            return None;
        }
        of_address.connections += 1;
        Some(AddressPlace { addresses: Arc::clone(self), address, unproven: Arc::clone(&of_address.unproven) })
    }
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let mut held = self.addresses.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_address) = held.get_mut(&self.address) {
            of_address.connections -= 1;
            if of_address.connections == 0 {
                held.remove(&self.address);
            }
        }
    }
}

/// What one subscriber has: an address, or in IPv6 a network of 64 bits.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            Ipv6Addr::from(network).into()
        }
        address => address,
    }
}

/// The connections of one runtime in the order they came. Those that have ended are cleared away by and by.
#[derive(Debug, Default)]
pub struct Line {
    present: VecDeque<Weak<Presence>>,
    /// How long it was when it was cleared last.
    cleared: usize,
}

/// How many are looked at to find one that can go.
const LOOKS: usize = 64;
/// Below this a line is not worth clearing.
const SHORT: usize = 1024;

impl Line {
    pub fn add(&mut self, presence: &Arc<Presence>) {
        if self.present.len() >= SHORT.max(2 * self.cleared) {
            self.present.retain(|present| present.strong_count() > 0);
            self.cleared = self.present.len();
        }
        self.present.push_back(Arc::downgrade(presence));
    }

    /// Shows somebody out with whom nothing is under way: whoever was never answered with success, before others; the oldest
    /// first. Between them are strangers who take long over a request: they may be as honest as anybody, but whoever is idle and
    /// welcome certainly is. Tells whether there was one.
    pub fn show_one_out(&mut self) -> bool {
        let (mut slow, mut welcome) = (None, None);
        for _ in 0..LOOKS.min(self.present.len()) {
            let Some(weak) = self.present.pop_front() else { break };
            let Some(presence) = weak.upgrade() else { continue };
            // Whoever is asked to go may stay, where a request comes first: it keeps its place in the line.
            self.present.push_back(weak);
            if presence.is_asked_to_go() {
                continue;
            }
            match (presence.is_quiet(), presence.is_welcome()) {
                (true, false) => {
                    presence.show_out();
                    return true;
                }
                (true, true) => welcome = welcome.or(Some(presence)),
                (false, false) if presence.is_old() && presence.is_doubtful() => slow = slow.or(Some(presence)),
                (false, _) => {}
            }
        }
        slow.or(welcome).inspect(|presence| presence.show_out()).is_some()
    }

    /// Tells all of them that the door is closed.
    pub fn shut(&self) {
        self.present.iter().filter_map(Weak::upgrade).for_each(|presence| presence.shut());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Version;

    use super::super::presence::Patience;
    use super::*;
    use crate::pipeline::body::ReplyBody;

    fn present(line: &mut Line) -> Arc<Presence> {
        let patience = Patience { head: Duration::from_secs(10), idle: Duration::from_secs(75) };
        let presence = Presence::new(patience, None);
        line.add(&presence);
        presence
    }

    #[test]
    fn an_address_has_its_share_and_gets_it_back() {
        let crowd = Crowd::of(100, Some(2));
        let seat = |address: &str| crowd.seat(address.parse().unwrap(), false, || false);
        let first = seat("192.0.2.1").unwrap();
        let _second = seat("::ffff:192.0.2.1").unwrap();
        assert_eq!(seat("192.0.2.1").unwrap_err(), Limit::ConnectionsPerAddress);
        let _other = seat("192.0.2.2").unwrap();
        drop(first);
        let _again = seat("192.0.2.1").unwrap();
        let _network = [seat("2001:db8::1").unwrap(), seat("2001:db8::ffff").unwrap()];
        assert_eq!(seat("2001:db8::2").unwrap_err(), Limit::ConnectionsPerAddress);
        let _next = seat("2001:db8:0:1::1").unwrap();
        assert!(crowd.seat("192.0.2.1".parse().unwrap(), true, || false).is_ok(), "whoever speaks for many is not counted");
    }

    #[test]
    fn a_full_house_has_room_for_one_more_only_where_somebody_goes() {
        let crowd = Crowd::of(1, None);
        let address = "192.0.2.1".parse().unwrap();
        let _first = crowd.seat(address, false, || false).unwrap();
        assert_eq!(crowd.seat(address, false, || false).unwrap_err(), Limit::Connections);
        assert!(crowd.seat(address, false, || true).is_ok());
    }

    #[test]
    fn the_oldest_stranger_goes_first_and_nobody_who_is_busy() {
        let mut line = Line::default();
        assert!(!line.show_one_out());
        let (busy, welcome, stranger) = (present(&mut line), present(&mut line), present(&mut line));
        let asked = busy.asked(Version::HTTP_11, true);
        drop(welcome.asked(Version::HTTP_11, true).replied(ReplyBody::whole("ok"), true));
        let shown_out = |presence: &Arc<Presence>| presence.is_asked_to_go();
        assert!(line.show_one_out());
        assert_eq!([&busy, &welcome, &stranger].map(shown_out), [false, false, true]);
        drop(stranger);
        assert!(line.show_one_out());
        assert_eq!([&busy, &welcome].map(shown_out), [false, true]);
        drop(welcome);
        assert!(!line.show_one_out(), "what is under way is not cut off");
        drop(asked);
        assert!(line.show_one_out());
        assert!(!line.show_one_out(), "nobody makes room twice");
        busy.stays();
        assert!(line.show_one_out(), "whoever stayed can be asked again");
    }

    #[test]
    fn those_who_have_left_take_no_room_in_the_line() {
        let mut line = Line::default();
        for _ in 0..10 * SHORT {
            drop(present(&mut line));
        }
        assert!(line.present.len() <= SHORT);
    }
}
