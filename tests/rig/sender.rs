//! The providers' side: every event is delivered until it is accepted, and sometimes when it need not be.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, sleep_until, timeout};

use super::dice::Dice;
use super::history::{Answer, At, Clock, Delivery};
use super::plan::Habits;
use super::provider::Provider;

/// Between two tries, doubled each time, and half of it by chance: all of them at once would be a fault of its own.
const PAUSE: Duration = Duration::from_millis(40);
const PAUSE_MAX: Duration = Duration::from_millis(1500);
/// Connections kept for an instance.
const IDLE_MAX: usize = 64;
/// Deliveries of one event that run at the same time.
const AT_ONCE_MAX: usize = 4;

/// An event to be delivered.
pub struct Task {
    pub place: usize,
    pub id: String,
    pub body: Bytes,
    pub provider: Arc<Provider>,
    pub begins: At,
    pub dice: Dice,
}

/// What all senders of a round share.
pub struct Senders {
    pub clock: Clock,
    pub doors: Arc<Doors>,
    pub habits: Habits,
    /// When they give up; set once the faults are over.
    pub give_up: watch::Receiver<Option<At>>,
    pub deliveries: Mutex<Vec<Delivery>>,
}

/// Where the instances are, as a load balancer knows it: it may not know yet that one is gone.
#[derive(Default)]
pub struct Doors(Mutex<Vec<Door>>);

#[derive(Default)]
struct Door {
    address: Option<SocketAddr>,
    idle: Vec<Connection>,
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driving: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driving.abort();
    }
}

impl Doors {
    /// Deliveries go there from now on; connections to where the instance was before are closed.
    pub fn open(&self, instance: usize, address: SocketAddr) {
        self.put(instance, Door { address: Some(address), idle: Vec::new() });
    }

    pub fn close(&self, instance: usize) {
        self.put(instance, Door::default());
    }

    fn put(&self, instance: usize, door: Door) {
        let mut doors = self.0.lock().unwrap();
        if doors.len() <= instance {
            doors.resize_with(instance + 1, Door::default);
        }
        doors[instance] = door;
    }

    /// Closes the connections that nobody uses.
    pub fn hang_up(&self) {
        self.0.lock().unwrap().iter_mut().for_each(|door| door.idle.clear());
    }

    fn pick(&self, dice: &mut Dice) -> Option<(SocketAddr, Option<Connection>)> {
        let mut doors = self.0.lock().unwrap();
        let mut open: Vec<&mut Door> = doors.iter_mut().filter(|door| door.address.is_some()).collect();
        if open.is_empty() {
            return None;
        }
        let door = dice.below(open.len());
        let door = &mut open[door];
        let idle = std::iter::from_fn(|| door.idle.pop()).find(|connection| connection.sender.is_ready());
        Some((door.address?, idle))
    }

    fn give_back(&self, address: SocketAddr, connection: Connection) {
        let mut doors = self.0.lock().unwrap();
        let door = doors.iter_mut().find(|door| door.address == Some(address));
        if let Some(door) = door.filter(|door| door.idle.len() < IDLE_MAX) {
            door.idle.push(connection);
        }
    }
}

impl Senders {
    /// Delivers an event until it is accepted, and again where the habits say so.
    pub async fn deliver(self: Arc<Self>, mut task: Task) {
        sleep_until(self.clock.instant(task.begins)).await;
        let overlaps = task.dice.permille(self.habits.overlaps);
        let copies = if task.dice.permille(self.habits.copies) { task.dice.within(2..AT_ONCE_MAX) } else { 1 };
        let mut running = JoinSet::new();
        for _ in 0..copies {
            running.spawn(self.delivery(&mut task));
        }
        let (mut pause, mut impatience) = (PAUSE, task.dice.millis(50..500));
        let mut give_up = self.give_up.clone();
        loop {
            let may_overlap = overlaps && running.len() < AT_ONCE_MAX;
            tokio::select! {
                Some(is_accepted) = running.join_next() => match is_accepted.unwrap() {
                    true => break,
                    false if running.is_empty() => {
                        sleep(pause / 2 + task.dice.up_to(pause / 2)).await;
                        pause = (pause * 2).min(PAUSE_MAX);
                        running.spawn(self.delivery(&mut task));
                    }
                    false => {}
                },
                () = sleep(impatience), if may_overlap => {
                    impatience *= 2;
                    running.spawn(self.delivery(&mut task));
                }
                () = self.time_is_up(&mut give_up) => break,
            }
        }
        while task.dice.permille(self.habits.redelivers) {
            let (least, most) = self.habits.redelivers_after;
            sleep(task.dice.millis(least..most)).await;
            running.spawn(self.delivery(&mut task));
        }
        running.join_all().await;
    }

    async fn time_is_up(&self, give_up: &mut watch::Receiver<Option<At>>) {
        let at = match give_up.wait_for(Option::is_some).await {
            Ok(at) => at.unwrap_or_default(),
            Err(_) => return,
        };
        sleep_until(self.clock.instant(at)).await;
    }

    /// One delivery; tells whether it was accepted.
    fn delivery(self: &Arc<Self>, task: &mut Task) -> impl Future<Output = bool> + use<> {
        let senders = Arc::clone(self);
        let are_over = self.give_up.borrow().is_some();
        // Once the faults are over, they are: hanging up could go on for ever.
        let hangs_up = !are_over && task.dice.permille(self.habits.hangs_up);
        let patience = if hangs_up { task.dice.millis(0..30) } else { self.habits.patience };
        let door = self.doors.pick(&mut task.dice);
        let (place, request) = (task.place, task.provider.delivery(task.place, &task.id, &task.body));
        async move {
            let began = senders.clock.now();
            let mut is_sent = false;
            let answer = timeout(patience, senders.send(door, request, &mut is_sent)).await.ok().flatten();
            let delivery = Delivery { event: place, is_sent, began, ended: senders.clock.now(), answer };
            let is_accepted = delivery.is_accepted();
            senders.deliveries.lock().unwrap().push(delivery);
            is_accepted
        }
    }

    /// `None` where no whole answer came. The connection is closed then.
    async fn send(
        &self,
        door: Option<(SocketAddr, Option<Connection>)>,
        request: Request<Full<Bytes>>,
        is_sent: &mut bool,
    ) -> Option<Answer> {
        let (address, idle) = door?;
        let mut connection = match idle {
            Some(connection) => connection,
            None => connect(address).await?,
        };
        *is_sent = true;
        let response = connection.sender.send_request(request).await.ok()?;
        let outcome = response.headers().get("hookonce-outcome").map_or("", |outcome| outcome.to_str().unwrap()).to_owned();
        let status = response.status().as_u16();
        response.into_body().collect().await.ok()?;
        self.doors.give_back(address, connection);
        Some(Answer { status, outcome })
    }
}

async fn connect(address: SocketAddr) -> Option<Connection> {
    let stream = TcpStream::connect(address).await.ok()?;
    stream.set_nodelay(true).ok()?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    let driving = tokio::spawn(async move { drop(connection.await) }).abort_handle();
    Some(Connection { sender, driving })
}
