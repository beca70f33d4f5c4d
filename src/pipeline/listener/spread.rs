//! Spreads connections over the runtimes.
//!
//! The kernel picks a runtime by a connection's addresses, however many it has. That evens out over many; of the few that a
//! balancer keeps, most may share one core while another idles. So whoever has more than another hands on what comes.

use std::io;
use std::net::{SocketAddr, TcpStream as StdStream};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::pipeline::bound::{Bound, Place};

/// A connection that is to be served here, and its place among those that are.
#[derive(Debug)]
pub struct Newcomer {
    pub stream: TcpStream,
    pub peer: SocketAddr,
    pub place: Place,
}

/// One that is of no runtime yet.
#[derive(Debug)]
pub struct Handed {
    stream: StdStream,
    peer: SocketAddr,
    place: Place,
}

/// A runtime, as those see it that hand connections on.
#[derive(Debug)]
struct Desk {
    connections: Bound,
    handed: UnboundedSender<Handed>,
}

/// One runtime's part in it.
#[derive(Debug)]
pub struct Share {
    desks: Arc<[Desk]>,
    own: usize,
    handed: UnboundedReceiver<Handed>,
}

impl Share {
    /// One for each of so many runtimes.
    pub fn among(count: usize) -> Vec<Self> {
        let (handing, handed): (Vec<_>, Vec<_>) = (0..count).map(|_| unbounded_channel()).unzip();
        let desks: Arc<[Desk]> = handing.into_iter().map(|handed| Desk { connections: Bound::none(), handed }).collect();
        handed.into_iter().enumerate().map(|(own, handed)| Self { desks: Arc::clone(&desks), own, handed }).collect()
    }

    /// Takes in a connection that was accepted here, or hands it on to whoever has fewest.
    pub fn take(&self, stream: TcpStream, peer: SocketAddr) -> io::Result<Option<Newcomer>> {
        let own = &self.desks[self.own].connections;
        // Who takes none any more has stopped a moment before us, or could not start.
        let others = self.desks.iter().filter(|desk| !desk.handed.is_closed());
        let fewest = others.min_by_key(|desk| desk.connections.taken());
        let Some(fewest) = fewest.filter(|fewest| is_too_many(own.taken(), fewest.connections.taken())) else {
            return Ok(Some(Newcomer { stream, peer, place: own.place() }));
        };
        let handed = Handed { stream: stream.into_std()?, peer, place: fewest.connections.place() };
        fewest.handed.send(handed).err().map(|back| self.keep(back.0.stream, peer)).transpose()
    }

    /// Takes in a connection, however many there are.
    pub fn keep(&self, stream: StdStream, peer: SocketAddr) -> io::Result<Newcomer> {
        Handed { stream, peer, place: self.desks[self.own].connections.place() }.arrive()
    }

    /// The next one that another runtime hands on.
    pub async fn handed(&mut self) -> Option<Handed> {
        self.handed.recv().await
    }

    /// Those that were handed on before, or are about to be. From now on nobody begins to.
    pub async fn close(mut self) -> Vec<Handed> {
        self.handed.close();
        let mut last = Vec::new();
        while let Some(handed) = self.handed.recv().await {
            last.push(handed);
        }
        last
    }
}

impl Handed {
    /// Makes it one of the current runtime.
    pub fn arrive(self) -> io::Result<Newcomer> {
        let Self { stream, peer, place } = self;
        stream.set_nonblocking(true)?;
        Ok(Newcomer { stream: TcpStream::from_std(stream)?, peer, place })
    }
}

/// Handing on costs both some work: among many, chance does well enough.
fn is_too_many(own: usize, fewest: usize) -> bool {
    own > fewest + fewest / 4
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// As many connections as are asked for.
    async fn connections(count: usize) -> Vec<(TcpStream, SocketAddr)> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut accepted = Vec::new();
        for _ in 0..count {
            let _theirs = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            accepted.push(listener.accept().await.unwrap());
        }
        accepted
    }

    /// All of them come to one runtime. Gives those that stay.
    async fn come_to(share: &Share, count: usize) -> Vec<Newcomer> {
        let came = connections(count).await.into_iter();
        came.filter_map(|(stream, peer)| share.take(stream, peer).unwrap()).collect()
    }

    fn taken(share: &Share) -> Vec<usize> {
        share.desks.iter().map(|desk| desk.connections.taken()).collect()
    }

    #[tokio::test]
    async fn few_are_spread_evenly_though_all_come_to_one() {
        let mut shares = Share::among(3);
        let kept = come_to(&shares[0], 9).await;
        assert_eq!((taken(&shares[0]), kept.len()), (vec![3; 3], 3));
        for share in shares.drain(1..) {
            assert_eq!(share.close().await.into_iter().filter_map(|handed| handed.arrive().ok()).count(), 3);
        }
        assert_eq!(taken(&shares[0]), [3, 0, 0], "they have ended there");
    }

    #[test]
    fn among_many_only_a_large_difference_counts() {
        assert!(is_too_many(1, 0) && is_too_many(4, 3) && !is_too_many(3, 3) && !is_too_many(0, 0));
        assert!(!is_too_many(125, 100) && is_too_many(126, 100));
    }

    #[tokio::test]
    async fn whoever_takes_none_any_more_is_handed_none() {
        let mut shares = Share::among(2);
        assert_eq!(shares.remove(1).close().await.len(), 0);
        let kept = come_to(&shares[0], 2).await;
        assert_eq!((kept.len(), taken(&shares[0])), (2, vec![2, 0]));
    }

    #[tokio::test]
    async fn one_that_was_handed_on_is_not_lost_when_its_runtime_stops() {
        let mut shares = Share::among(2);
        let kept = come_to(&shares[0], 4).await;
        let mut other = shares.remove(1);
        let first = other.handed().await.unwrap().arrive().unwrap();
        assert_eq!((kept.len(), other.close().await.len()), (2, 1));
        assert_eq!(taken(&shares[0]), [2, 1]);
        drop(first);
    }
}
