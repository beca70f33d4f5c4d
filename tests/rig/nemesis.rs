//! What goes wrong, and when. Three tracks run beside each other: the store, the instances, the way to the consumer.
//! Each injects one fault, mends it, and waits a little before the next.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::sleep;

use super::dice::Dice;
use super::fleet::Fleet;
use super::history::{At, Clock, Part, Trouble};
use super::store::Redis;
use super::support::fault_proxy::{Fault, FaultProxy, Way};
use super::support::program::pause;

pub struct Nemesis {
    pub clock: Clock,
    /// When it has had its fun.
    pub until: At,
    pub troubles: Mutex<Vec<Trouble>>,
}

impl Nemesis {
    pub async fn vex_store(&self, redis: &mut Redis, mut dice: Dice) {
        while self.goes_on(&mut dice).await {
            let from = self.clock.now();
            let (what, part) = match dice.below(8) {
                0 => (freeze_store(redis, &mut dice).await, Part::Store),
                1 => empty_store(redis, &mut dice).await,
                2 => (pause_clients(redis, &mut dice).await, Part::Store),
                3 => (fill_store(redis, &mut dice).await, Part::Store),
                4 => (forget_scripts(redis).await, Part::Store),
                _ => {
                    let link = dice.below(redis.links.len());
                    (disturb(&redis.links[link], &mut dice).await, Part::Store)
                }
            };
            self.note(what, part, from);
        }
    }

    pub async fn vex_instances(&self, fleet: &mut Fleet, mut dice: Dice) {
        while self.goes_on(&mut dice).await {
            let from = self.clock.now();
            let member = dice.below(fleet.members.len());
            let member = &mut fleet.members[member];
            match dice.below(3) {
                0 => {
                    member.kill().await;
                    sleep(dice.millis(0..300)).await;
                    member.replace().await;
                    self.note("an instance killed", Part::Instance, from);
                }
                1 => {
                    member.instance.program.pause().await;
                    sleep(dice.millis(200..2200)).await;
                    member.instance.program.resume();
                    self.note("an instance frozen", Part::Instance, from);
                }
                // A restart in good order is no trouble to anybody.
                _ => {
                    member.stop().await;
                    member.replace().await;
                }
            }
        }
    }

    pub async fn vex_upstream(&self, upstream: &FaultProxy, mut dice: Dice) {
        while self.goes_on(&mut dice).await {
            let from = self.clock.now();
            let what = disturb(upstream, &mut dice).await;
            self.note(what, Part::Upstream, from);
        }
    }

    async fn goes_on(&self, dice: &mut Dice) -> bool {
        sleep(dice.millis(50..900)).await;
        self.clock.now() < self.until
    }

    fn note(&self, what: &'static str, part: Part, from: At) {
        let trouble = Trouble { what, part, from, until: self.clock.now() };
        self.troubles.lock().unwrap().push(trouble);
    }
}

async fn freeze_store(redis: &Redis, dice: &mut Dice) -> &'static str {
    pause(redis.server.process()).await;
    sleep(dice.millis(100..1500)).await;
    redis.server.signal("CONT");
    "Redis frozen"
}

/// Only a store that nobody was promised to keep anything in can be emptied.
async fn empty_store(redis: &mut Redis, dice: &mut Dice) -> (&'static str, Part) {
    if !redis.is_durable && dice.permille(300) {
        redis.tell(&redis::cmd("FLUSHALL")).await;
        return ("Redis flushed", Part::Contents);
    }
    redis.server.kill();
    sleep(dice.millis(0..700)).await;
    redis.server.restart();
    if redis.is_durable { ("Redis killed", Part::Store) } else { ("Redis killed and empty", Part::Memory) }
}

async fn pause_clients(redis: &Redis, dice: &mut Dice) -> &'static str {
    let time = dice.millis(100..1200);
    let mode = *dice.pick(&["WRITE", "ALL"]);
    redis.tell(redis::cmd("CLIENT").arg("PAUSE").arg(u64::try_from(time.as_millis()).unwrap()).arg(mode)).await;
    sleep(time).await;
    "Redis pauses its clients"
}

async fn fill_store(redis: &Redis, dice: &mut Dice) -> &'static str {
    redis.tell(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1)).await;
    sleep(dice.millis(100..1000)).await;
    redis.tell(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(0)).await;
    "Redis full"
}

async fn forget_scripts(redis: &Redis) -> &'static str {
    redis.tell(redis::cmd("SCRIPT").arg("FLUSH")).await;
    "Redis without scripts"
}

/// One fault of a network, for a while.
async fn disturb(link: &FaultProxy, dice: &mut Dice) -> &'static str {
    let way = *dice.pick(&[Way::There, Way::Back]);
    let (fault, what) = match dice.below(7) {
        0 => (Fault::Delay(dice.millis(5..150)), "a slow network"),
        1 => (Fault::Lose(way), "a network that loses one way"),
        2 => (Fault::CutAfter(way, dice.within(1..2000)), "a network that cuts"),
        3 => (Fault::Silence, "a silent network"),
        4 => (Fault::Reset, "a network that resets"),
        5 => (Fault::Refuse, "nobody listens"),
        _ => {
            link.sever();
            sleep(Duration::from_millis(1)).await;
            return "connections severed";
        }
    };
    link.set(fault);
    sleep(dice.millis(20..900)).await;
    link.heal();
    what
}
