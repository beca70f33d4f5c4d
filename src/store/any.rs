//! The stores there are, behind one type: a new one fails to compile in exactly this file.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::Store;
use super::backlog::{
    Appended, Backlog, Filed, Finished, Holding, Lane, LetterId, NewLetter, Revived, Room, Slip, TakeTerms, Taken, Tally,
};
use super::breaker::Breaker;
use super::cells::{Cells, Change, Cursor, Held, Step, StoreError, StoreErrorKind, Swapped};
use super::file::FileCells;
use super::keeping::Keeping;
use super::memory::MemoryCells;
use super::redis::{About, RedisCells, RedisServer};
use super::seal::{Seal, Sealed};
use crate::config::{StoreConfig, StoreUrl};
use crate::pipeline::identify::EventKey;

#[derive(Clone, Debug)]
pub enum AnyCells {
    Memory(MemoryCells),
    File(FileCells),
    Redis(RedisCells),
}

/// The store as the process has it: opened once, connected to by each runtime.
#[derive(Debug)]
pub struct StoreSource {
    opened: Opened,
    /// One for all connections: they reach the same store.
    breaker: Arc<Breaker>,
    seal: Option<Arc<Seal>>,
}

#[derive(Debug)]
enum Opened {
    Memory(MemoryCells),
    File(FileCells),
    Redis(Box<RedisServer>),
}

impl StoreSource {
    /// Opens what is local; a server is not asked for anything yet, so that one that is down does not stop the program.
    pub fn open(config: &StoreConfig) -> Result<Self, StoreError> {
        let opened = match &config.url {
            StoreUrl::Memory => Opened::Memory(MemoryCells::default()),
            StoreUrl::File(path) => Opened::File(FileCells::open(path)?.with_budget(config.timeout)),
            StoreUrl::Redis(url) => {
                let read = |path| std::fs::read(path).map_err(|error| StoreError::new(StoreErrorKind::Local, error));
                let ca = config.ca_file.as_ref().map(read).transpose()?;
                Opened::Redis(Box::new(RedisServer::new(url, ca, config.timeout)?))
            }
        };
        let seal = config.seal.as_ref().map(Seal::new).transpose()?.map(Arc::new);
        Ok(Self { opened, breaker: Arc::default(), seal })
    }

    /// The store for the current runtime.
    pub fn connect(&self) -> Result<Store, StoreError> {
        let cells = match &self.opened {
            Opened::Memory(cells) => AnyCells::Memory(cells.clone()),
            Opened::File(cells) => AnyCells::File(cells.clone()),
            Opened::Redis(server) => AnyCells::Redis(server.connect()),
        };
        Ok(Store::behind(Arc::clone(&self.breaker), Sealed::new(cells, self.seal.clone())))
    }

    /// Ends the store in good order, as the last thing the process does with it.
    pub async fn close(&self) -> Result<(), StoreError> {
        match &self.opened {
            Opened::File(cells) => cells.close().await,
            Opened::Memory(_) | Opened::Redis(_) => Ok(()),
        }
    }
}

impl Store<Sealed<AnyCells>> {
    /// What a server says of itself; `None` where there is no server.
    pub async fn about(&self) -> Result<Option<About>, StoreError> {
        match self.cells().inner() {
            AnyCells::Redis(cells) => cells.about().await.map(Some),
            AnyCells::Memory(_) | AnyCells::File(_) => Ok(None),
        }
    }

    /// Whether what it has confirmed outlives it.
    pub async fn keeping(&self) -> Result<Keeping, StoreError> {
        match self.cells().inner() {
            AnyCells::Redis(cells) => cells.keeping().await,
            AnyCells::File(_) => Ok(Keeping::Durable),
            AnyCells::Memory(_) => Ok(Keeping::Lossy("memory: forgets everything when the program ends".to_owned())),
        }
    }

    /// The key of an event of a lane: where keys are spread over servers, it has to be beside its letter.
    pub fn key_in(&self, lane: &Lane, key: &EventKey) -> EventKey {
        match self.cells().inner() {
            AnyCells::Redis(_) => lane.beside(key),
            AnyCells::Memory(_) | AnyCells::File(_) => key.clone(),
        }
    }

    /// When a server was last found in the place of another one, which may have known more.
    pub fn replaced(&self) -> Option<SystemTime> {
        match self.cells().inner() {
            AnyCells::Redis(cells) => cells.replaced(),
            AnyCells::Memory(_) | AnyCells::File(_) => None,
        }
    }
}

macro_rules! each {
    ($self:ident, $cells:ident => $call:expr) => {
        match $self {
            AnyCells::Memory($cells) => $call.await,
            // Boxed: whoever asks is moved before it is asked, and would be so with room for all that a disk or a server may take.
            AnyCells::File($cells) => Box::pin($call).await,
            AnyCells::Redis($cells) => Box::pin($call).await,
        }
    };
}

impl Cells for AnyCells {
    async fn put_new(&self, key: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        each!(self, cells => cells.put_new(key, value, life))
    }

    async fn put(&self, key: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        each!(self, cells => cells.put(key, value, life))
    }

    async fn swap(&self, key: &str, change: Change) -> Result<Swapped, StoreError> {
        each!(self, cells => cells.swap(key, change))
    }

    async fn touch(&self, key: &str, value: Bytes, life: Duration) -> Result<bool, StoreError> {
        each!(self, cells => cells.touch(key, value, life))
    }

    async fn read(&self, key: &str) -> Result<Option<Held>, StoreError> {
        each!(self, cells => cells.read(key))
    }

    async fn walk(&self, prefix: &str, from: Option<Cursor>) -> Result<Step, StoreError> {
        each!(self, cells => cells.walk(prefix, from))
    }

    async fn pulse(&self, marker: &str) -> Result<Option<Bytes>, StoreError> {
        each!(self, cells => cells.pulse(marker))
    }
}

impl Backlog for AnyCells {
    async fn append(&self, lane: &Lane, letter: NewLetter, room: Room) -> Result<Appended, StoreError> {
        each!(self, cells => cells.append(lane, letter, room))
    }

    async fn take(&self, lane: &Lane, terms: TakeTerms) -> Result<Taken, StoreError> {
        each!(self, cells => cells.take(lane, terms))
    }

    async fn extend(&self, lane: &Lane, holding: &Holding, lease: Duration) -> Result<bool, StoreError> {
        each!(self, cells => cells.extend(lane, holding, lease))
    }

    async fn finish(&self, lane: &Lane, finished: Finished) -> Result<Option<Bytes>, StoreError> {
        each!(self, cells => cells.finish(lane, finished))
    }

    async fn postpone(&self, lane: &Lane, holding: &Holding, slip: Slip, pause: Duration) -> Result<bool, StoreError> {
        each!(self, cells => cells.postpone(lane, holding, slip, pause))
    }

    async fn bury(&self, lane: &Lane, holding: &Holding, slip: Slip, blocks: bool) -> Result<bool, StoreError> {
        each!(self, cells => cells.bury(lane, holding, slip, blocks))
    }

    async fn revive(&self, lane: &Lane, id: LetterId, slip: Slip) -> Result<Revived, StoreError> {
        each!(self, cells => cells.revive(lane, id, slip))
    }

    async fn letter(&self, lane: &Lane, id: LetterId) -> Result<Option<Filed>, StoreError> {
        each!(self, cells => cells.letter(lane, id))
    }

    async fn list(&self, lane: &Lane, is_dead: bool, after: Option<LetterId>, most: usize) -> Result<Vec<Filed>, StoreError> {
        each!(self, cells => cells.list(lane, is_dead, after, most))
    }

    async fn tally(&self, lane: &Lane) -> Result<Tally, StoreError> {
        each!(self, cells => cells.tally(lane))
    }
}
