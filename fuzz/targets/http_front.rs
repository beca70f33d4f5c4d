//! Whatever bytes a sender writes to the listening port, nothing panics, and by the limits of time the connection ends. What comes
//! back is HTTP, answer after answer. At the provider's path, however it is spelt, the consumer only ever gets a body whose
//! signature the sender has sent, with the id that hookonce has found in it, and an event that it has accepted never again
//! without a mark; everything else that it gets is on a path that is passed through.
//!
//! The listener, the pipeline and the consumer are real and so are the sockets between them, all on one thread. The clock is not: it is
//! moved on whenever everybody waits.
#![no_main]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a target fails by panicking")]

#[path = "http_front/answers.rs"]
mod answers;
#[path = "http_front/consumer.rs"]
mod consumer;

use std::cell::LazyCell;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use consumer::{Consumer, Seen};
use data_encoding::HEXLOWER;
use hookonce::config::{Config, Environment};
use hookonce::pipeline::bound::Bound;
use hookonce::pipeline::flight::Flights;
use hookonce::pipeline::intake::Buffered;
use hookonce::pipeline::keyring::Keyring;
use hookonce::pipeline::listener::crowd::Crowd;
use hookonce::pipeline::listener::spread::Share;
use hookonce::pipeline::plan::{Door, Plan};
use hookonce::pipeline::upstream::Upstreams;
use hookonce::pipeline::{Pipeline, listener};
use hookonce::store::{Reserve, StoreSource};
use hookonce::telemetry::Telemetry;
use libfuzzer_sys::{Corpus, fuzz_target};
use ring::hmac;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Known here, and to no input: what is signed with it stands in the corpus and in the dictionary.
const SECRET: &str = "a secret that only the sender and we know";
const PATH: &str = "/hooks/orders";
/// Longer than all limits of time together.
const END_OF_PATIENCE: Duration = Duration::from_secs(3600);

fuzz_target!(|bytes: &[u8]| -> Corpus {
    if bytes.is_empty() || bytes.len() > 1 << 16 {
        return Corpus::Reject;
    }
    let (answers, seen) = SCENE.with(|scene| scene.play(bytes));
    answers::are_well_formed(&answers, bytes);
    consumer_got_only_what_it_may(&seen, bytes);
    Corpus::Keep
});

thread_local!(static SCENE: LazyCell<Scene> = LazyCell::new(Scene::new));

struct Scene {
    runtime: Runtime,
    consumer: Consumer,
    pipeline: Pipeline,
}

impl Scene {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let (consumer, pipeline) = runtime.block_on(async {
            let consumer = Consumer::start().await;
            let pipeline = pipeline(&consumer);
            (consumer, pipeline)
        });
        let scene = Self { runtime, consumer, pipeline };
        // Where nothing gets through, nothing wrong does: what is signed must arrive.
        let (answers, seen) = scene.play(&signed(br#"{"id":"evt_1"}"#));
        assert!(answers.starts_with(b"HTTP/1.1 200 OK\r\n") && seen.len() == 1, "{seen:?}");
        scene
    }

    /// One connection, from its first byte to its end: what came back on it, and what the consumer got.
    fn play(&self, bytes: &[u8]) -> (Vec<u8>, Vec<Seen>) {
        self.runtime.block_on(async {
            let pipeline = fresh(&self.pipeline);
            let tasks = pipeline.tasks.clone();
            let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = socket.local_addr().unwrap();
            let closing = CancellationToken::new();
            let (crowd, share) = (Crowd::new(&pipeline.config().limits), Share::among(1).remove(0));
            let door = Arc::new(Door::new(pipeline));
            let serving = listener::serve(socket, share, door, crowd, CancellationToken::new(), closing.clone());
            let serving = tokio::spawn(serving);
            let answers = in_time("a connection", send(TcpStream::connect(address).await.unwrap(), bytes)).await;
            tasks.close();
            in_time("an attempt", tasks.wait()).await;
            closing.cancel();
            in_time("the listener", serving).await.unwrap();
            (answers, self.consumer.take_seen())
        })
    }
}

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(END_OF_PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} has not ended by its limits"))
}

/// Sends everything, and reads until the other side has no more to say. Some senders write in two goes; some close their side.
async fn send(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    let (first, second) = bytes.split_at(if sum & 1 == 1 { bytes.len() / 2 } else { bytes.len() });
    let mut answers = Vec::new();
    let (mut from, mut to) = stream.split();
    let writing = async {
        // Whoever is refused may be hung up on before all is said.
        let _ = to.write_all(first).await;
        tokio::task::yield_now().await;
        let _ = to.write_all(second).await;
        if sum & 6 == 6 {
            let _ = to.shutdown().await;
        }
    };
    let reading = from.read_to_end(&mut answers);
    let _ = tokio::join!(writing, reading);
    answers
}

fn pipeline(consumer: &Consumer) -> Pipeline {
    let text = format!(
        "listen = \"127.0.0.1:0\"\nupstream = \"http://{}\"\npassthrough = [\"/health\", \"/app/*\"]\n\
         [store]\nurl = \"memory:\"\nnamespace = \"fuzz\"\n\
         [providers.orders]\npath = \"{PATH}\"\nsecret = \"{SECRET}\"\nevent_id = {{ json = \"/id\" }}\nmax_body = \"4KiB\"\n\
         [providers.orders.scheme]\nsignature = {{ header = \"X-Signature\" }}\nprefix = \"sha256=\"\n",
        consumer.address
    );
    let config = Config::from_text(&text, &Environment::default()).expect("the configuration is right").config;
    let (config, telemetry) = (Arc::new(config), Arc::new(Telemetry::new().unwrap()));
    Pipeline {
        plan: Plan::new(Arc::clone(&config), &telemetry),
        flights: Arc::new(Flights::new(config.limits.waiters_per_event)),
        buffered: Buffered::new(&config.limits),
        store: StoreSource::open(&config.store).unwrap().connect().unwrap(),
        reserve: Arc::new(Reserve::new(config.limits.recent, config.limits.local_claims)),
        condition: Arc::default(),
        keyring: Arc::new(Keyring::new().unwrap()),
        upstreams: Arc::new(Upstreams::new().unwrap()),
        attempts: Bound::new(config.limits.attempts),
        failures: None,
        tasks: TaskTracker::new(),
        stop: CancellationToken::new(),
        telemetry,
    }
}

/// A delivery as the provider would send it.
fn signed(body: &[u8]) -> Vec<u8> {
    let (signature, length) = (signature(body), body.len());
    let head = format!("POST {PATH} HTTP/1.1\r\nhost: x\r\nx-signature: sha256={signature}\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn signature(body: &[u8]) -> String {
    HEXLOWER.encode(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()), body).as_ref())
}

/// The same, and nothing has come in yet.
fn fresh(pipeline: &Pipeline) -> Pipeline {
    let config = pipeline.config();
    Pipeline {
        flights: Arc::new(Flights::new(config.limits.waiters_per_event)),
        buffered: Buffered::new(&config.limits),
        store: StoreSource::open(&config.store).unwrap().connect().unwrap(),
        reserve: Arc::new(Reserve::new(config.limits.recent, config.limits.local_claims)),
        tasks: TaskTracker::new(),
        ..pipeline.clone()
    }
}

fn consumer_got_only_what_it_may(seen: &[Seen], sent: &[u8]) {
    let mut accepted = Vec::new();
    for one in seen {
        if !leads_to_provider(&one.path) {
            let is_passed = one.path == "/health" || one.path == "/app" || one.path.starts_with("/app/");
            assert!(is_passed, "passed on where nothing is: {one:?}");
            assert!(one.event_id.is_none() && one.mark.is_none(), "passed on as if it had been verified: {one:?}");
            continue;
        }
        assert_eq!(one.path, PATH, "another spelling of the provider's path: {one:?}");
        let signature = signature(&one.body);
        assert!(sent.windows(signature.len()).any(|part| part == signature.as_bytes()), "nobody has signed this: {one:?}");
        let id = one.id_in_body();
        assert_eq!(one.event_id, id, "another event's id: {one:?}");
        assert!(id.is_some() || one.mark.as_deref() == Some("no-id"), "no id, and no mark: {one:?}");
        let Some(id) = id else { continue };
        assert!(!accepted.contains(&id) || one.mark.is_some(), "accepted before, and not marked: {one:?}");
        if one.status == 200 {
            accepted.push(id);
        }
    }
}

/// Whether a consumer that is generous about paths would take this for the provider's.
fn leads_to_provider(path: &str) -> bool {
    let mut plain = path.to_ascii_lowercase();
    for _ in 0..2 {
        for (escape, letter) in [("%2f", "/"), ("%5c", "/"), ("%2e", "."), ("\\", "/"), ("%25", "%")] {
            plain = plain.replace(escape, letter);
        }
    }
    let mut steps: Vec<&str> = Vec::new();
    for step in plain.split('/') {
        match step {
            "" | "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    steps == ["hooks", "orders"]
}
