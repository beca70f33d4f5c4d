//! Puts a server further away: what comes is passed on half the delay later, in either direction.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::spawn_local;

use crate::Trouble;
use crate::alarm::Alarm;
use crate::options::Options;

/// Pieces on their way. A way that is full holds the sender up, as a real one does.
const PIECES_MAX: usize = 1024;
const PIECE_BYTES: usize = 64 * 1024;

type Piece = (Instant, Bytes);

pub async fn run(options: &Options) -> Result<(), Trouble> {
    options.only(&["to", "delay"])?;
    let to = *options.addresses("to")?.first().ok_or("--to is needed")?;
    let one_way = options.duration("delay")? / 2;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (inner, _) = listener.accept().await?;
        spawn_local(join(inner, to, one_way));
    }
}

async fn join(near: TcpStream, to: SocketAddr, one_way: Duration) -> io::Result<()> {
    let far = TcpStream::connect(to).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
    carry(near_read, far_write, one_way);
    carry(far_read, near_write, one_way);
    Ok(())
}

fn carry(from: OwnedReadHalf, to: OwnedWriteHalf, one_way: Duration) {
    let (way_in, way_out) = channel(PIECES_MAX);
    spawn_local(take(from, way_in, one_way));
    spawn_local(give(way_out, to));
}

/// Ends with the connection, and then `give` does.
async fn take(mut from: OwnedReadHalf, way: Sender<Piece>, one_way: Duration) -> io::Result<()> {
    loop {
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        if from.read_buf(&mut piece).await? == 0 || way.send((Instant::now() + one_way, piece.freeze())).await.is_err() {
            return Ok(());
        }
    }
}

async fn give(mut way: Receiver<Piece>, mut to: OwnedWriteHalf) -> io::Result<()> {
    let alarm = Alarm::new()?;
    while let Some((due, piece)) = way.recv().await {
        alarm.until(due).await?;
        to.write_all(&piece).await?;
    }
    to.shutdown().await
}
