//! A network between two parties that can be made to fail while they talk.
//!
//! It never does what TCP would not: bytes arrive in order or not at all. A connection that has lost some is broken off
//! when the fault ends, because whatever came after them would be taken for something else.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

/// What the network does, to connections that are open and to those to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Everything arrives, this much later.
    Delay(Duration),
    /// What goes this way is lost from now on; the other way works.
    Lose(Way),
    /// Each connection is closed once so many more bytes have gone this way.
    CutAfter(Way, usize),
    /// Nothing moves, connections are accepted and hang; what was sent meanwhile arrives when the fault ends.
    Silence,
    /// Connections are reset, and new ones as soon as they are made.
    Reset,
    /// Connections are closed, and nobody listens.
    Refuse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    There,
    Back,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// Where new connections go.
    server: SocketAddr,
    fault: Fault,
    /// Raised to reset every connection made before.
    severed: u64,
}

/// Listens until dropped.
pub struct FaultProxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    listening: AbortHandle,
}

impl FaultProxy {
    /// In front of a server, which need not be there yet.
    pub async fn to(server: SocketAddr) -> Self {
        let door = Door::Open(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let address = door.address();
        let state = watch::Sender::new(State { server, fault: Fault::None, severed: 0 });
        let listening = tokio::spawn(listen(door, state.subscribe())).abort_handle();
        Self { address, state, listening }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, until another fault is set.
    pub fn set(&self, fault: Fault) {
        self.state.send_modify(|state| state.fault = fault);
    }

    pub fn heal(&self) {
        self.set(Fault::None);
    }

    /// Leads to another server from now on, as a name does that was given to somebody else. Open connections are reset.
    pub fn redirect(&self, server: SocketAddr) {
        self.state.send_modify(|state| state.server = server);
        self.sever();
    }

    /// Resets the connections that are open now, and no others.
    pub fn sever(&self) {
        self.state.send_modify(|state| state.severed += 1);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Carries connections; they end with it.
async fn listen(mut door: Door, mut state: watch::Receiver<State>) {
    let mut carried = JoinSet::new();
    loop {
        let fault = state.borrow_and_update().fault;
        door = if fault == Fault::Refuse { door.close().await } else { door.open() };
        tokio::select! {
            changed = state.changed() => if changed.is_err() { return },
            near = door.accept() => drop(carried.spawn(carry(near, state.clone()))),
            Some(_) = carried.join_next() => {}
        }
    }
}

/// Where connections come in. Closed, the port is still held, so that nobody else can be found there.
enum Door {
    Open(TcpListener),
    Closed(TcpSocket),
}

impl Door {
    fn address(&self) -> SocketAddr {
        match self {
            Self::Open(listener) => listener.local_addr(),
            Self::Closed(socket) => socket.local_addr(),
        }
        .unwrap()
    }

    fn open(self) -> Self {
        match self {
            Self::Open(_) => self,
            Self::Closed(socket) => Self::Open(socket.listen(1024).unwrap()),
        }
    }

    async fn close(self) -> Self {
        let address = self.address();
        let Self::Open(listener) = self else { return self };
        drop(listener);
        loop {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_reuseaddr(true).unwrap();
            if socket.bind(address).is_ok() {
                return Self::Closed(socket);
            }
            // Somebody was given the port in between, for one connection.
            sleep(Duration::from_millis(1)).await;
        }
    }

    async fn accept(&self) -> TcpStream {
        match self {
            Self::Open(listener) => listener.accept().await.unwrap().0,
            Self::Closed(_) => std::future::pending().await,
        }
    }
}

/// Why a connection is broken off.
enum Broken {
    Closed,
    Reset,
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self::Reset
    }
}

async fn carry(mut near: TcpStream, state: watch::Receiver<State>) {
    let State { server, severed, .. } = *state.borrow();
    let broken = tokio::select! {
        ended = converse(&mut near, server, &state) => ended.err(),
        why = broken_by(state.clone(), severed) => Some(why),
    };
    if let Some(Broken::Reset) = broken {
        // A socket that is gone already needs no reset.
        let _ = SockRef::from(&near).set_linger(Some(Duration::ZERO));
    }
}

async fn converse(near: &mut TcpStream, server: SocketAddr, state: &watch::Receiver<State>) -> Result<(), Broken> {
    let mut far = TcpStream::connect(server).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (near_in, near_out) = near.split();
    let (far_in, far_out) = far.split();
    let there = pump(near_in, far_out, Way::There, state.clone());
    let back = pump(far_in, near_out, Way::Back, state.clone());
    tokio::try_join!(there, back).map(drop)
}

/// Waits for a fault that ends every connection at once.
async fn broken_by(mut state: watch::Receiver<State>, severed: u64) -> Broken {
    let ends = |state: &State| matches!(state.fault, Fault::Reset | Fault::Refuse) || state.severed != severed;
    match state.wait_for(ends).await.map(|state| state.fault) {
        Ok(Fault::Refuse) | Err(_) => Broken::Closed,
        Ok(_) => Broken::Reset,
    }
}

/// Carries one way of a connection until its end.
async fn pump(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, way: Way, mut state: watch::Receiver<State>) -> Result<(), Broken> {
    let (mut has_lost, mut cut_in) = (false, None);
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let fault = still(&mut state).await?;
        let loses = fault == Fault::Lose(way);
        if has_lost && !loses {
            return Err(Broken::Reset);
        }
        if !matches!(fault, Fault::CutAfter(..)) {
            cut_in = None;
        }
        let length = tokio::select! {
            read = from.read(&mut buffer) => read?,
            _ = state.changed() => continue,
        };
        if length == 0 {
            to.shutdown().await?;
            return Ok(());
        }
        // The fault may have come with the bytes.
        let bytes = &buffer[..length];
        match still(&mut state).await? {
            Fault::Lose(lossy) if lossy == way => has_lost = true,
            Fault::CutAfter(cut, count) if cut == way => {
                let left = cut_in.unwrap_or(count);
                to.write_all(&bytes[..length.min(left)]).await?;
                if length >= left {
                    return Err(Broken::Closed);
                }
                cut_in = Some(left - length);
            }
            Fault::Delay(time) => {
                sleep(time).await;
                to.write_all(bytes).await?;
            }
            _ if has_lost => return Err(Broken::Reset),
            _ => to.write_all(bytes).await?,
        }
    }
}

/// The fault of now, once it is none that stops everything.
async fn still(state: &mut watch::Receiver<State>) -> Result<Fault, Broken> {
    let moves = |state: &State| state.fault != Fault::Silence;
    match state.wait_for(moves).await {
        Ok(state) => Ok(state.fault),
        Err(_) => Err(Broken::Closed),
    }
}
