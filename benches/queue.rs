//! Queue mode from outside: how soon a sender is told that its event is durable, and how many events a second are accepted
//! and delivered. The program itself, a real redis-server that writes its log before it confirms, the disk under `target`.
//!
//! `cargo bench --bench queue [-- --seconds 10 --rate 500]`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a benchmark fails by panicking and reads the clock"
)]

use std::net::{SocketAddr, TcpListener as StdListener};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use hookonce::config::Secret;
use hookonce::scheme::{Draft, Key, Scheme, preset};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self as client, SendRequest};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const CONNECTIONS: usize = 32;
const BODY_BYTES: usize = 2048;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: u64| {
        let at = words.iter().position(|word| word == name);
        at.and_then(|at| words.get(at + 1)?.parse().ok()).unwrap_or(default)
    };
    let (seconds, rate) = (number("--seconds", 10), number("--rate", 500));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("queue-bench");
    println!("{BODY_BYTES} bytes a body, {CONNECTIONS} connections, {seconds} s each; acknowledgements are durable");
    for store in ["file:", "redis, appendfsync always"] {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        runtime.block_on(measure(store, &folder, seconds, rate));
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// A process that ends with the benchmark.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn measure(store: &str, folder: &std::path::Path, seconds: u64, rate: u64) {
    let (redis, url) =
        if store == "file:" { (None, format!("file:{}", folder.join("store").display())) } else { redis(folder).await };
    let delivered = Arc::new(AtomicUsize::new(0));
    let consumer = consumer(Arc::clone(&delivered)).await;
    let (program, listen) = program(folder, &url, consumer).await;
    let time = Duration::from_secs(seconds);

    let mut latencies = at_a_rate(listen, rate, time).await;
    let count = latencies.len();
    latencies.sort_unstable();
    let of = |part: f64| latencies[((count - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    println!("\n{store}");
    println!(
        "  at {rate} events/s: acknowledged after p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms ({count} events)",
        of(0.5),
        of(0.99),
        of(1.0)
    );
    all_delivered(&delivered, count).await;

    let began = Instant::now();
    let accepted = as_fast_as_possible(listen, time).await;
    let accepting = began.elapsed().as_secs_f64();
    let at_once = delivered.load(Ordering::Relaxed) - count;
    all_delivered(&delivered, count + accepted).await;
    let delivering = began.elapsed().as_secs_f64();
    println!(
        "  at full speed: {:.0} events/s accepted, {:.0} events/s delivered meanwhile, {:.0} events/s over all ({accepted} events)",
        accepted as f64 / accepting,
        at_once as f64 / accepting,
        accepted as f64 / delivering
    );
    drop((program, redis));
}

/// A server whose every write is on disk before it is confirmed.
async fn redis(folder: &std::path::Path) -> (Option<Running>, String) {
    let port = StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = Command::new("redis-server")
        .args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--dir",
        ])
        .arg(folder)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is needed");
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        sleep(Duration::from_millis(10)).await;
    }
    (Some(Running(child)), format!("redis://127.0.0.1:{port}"))
}

async fn consumer(delivered: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let delivered = Arc::clone(&delivered);
            let answer = service_fn(move |request: Request<hyper::body::Incoming>| {
                let delivered = Arc::clone(&delivered);
                async move {
                    request.into_body().collect().await?;
                    delivered.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, hyper::Error>(Response::new(Full::new(Bytes::new())))
                }
            });
            tokio::spawn(server::Builder::new().serve_connection(TokioIo::new(stream), answer));
        }
    });
    address
}

async fn program(folder: &std::path::Path, store: &str, consumer: SocketAddr) -> (Running, SocketAddr) {
    let listen = StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = format!(
        "listen = \"{listen}\"\nadmin = \"127.0.0.1:0\"\nupstream = \"http://{consumer}\"\n[log]\nlevel = \"warn\"\n\
         [store]\nurl = \"{store}\"\nnamespace = \"bench\"\n[providers.github]\npath = \"/\"\nsecret = \"{SECRET}\"\nmode = \"queue\"\n"
    );
    let file = folder.join("hookonce.toml");
    std::fs::write(&file, config).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_hookonce")).arg("run").arg("--config").arg(file).spawn().unwrap();
    let program = Running(child);
    while TcpStream::connect(listen).await.is_err() {
        sleep(Duration::from_millis(10)).await;
    }
    (program, listen)
}

async fn all_delivered(delivered: &AtomicUsize, count: usize) {
    let until = Instant::now() + Duration::from_secs(120);
    while delivered.load(Ordering::Relaxed) < count {
        assert!(Instant::now() < until, "{} of {count} events were delivered", delivered.load(Ordering::Relaxed));
        sleep(Duration::from_millis(5)).await;
    }
}

/// Events at moments that are fixed beforehand: one that is slow does not spare the next.
async fn at_a_rate(listen: SocketAddr, rate: u64, time: Duration) -> Vec<Duration> {
    let begin = tokio::time::Instant::now() + Duration::from_millis(50);
    let total = rate * time.as_secs();
    let mut senders = JoinSet::new();
    for nth in 0..CONNECTIONS as u64 {
        senders.spawn(async move {
            let (mut connection, mut taken) = (connect(listen).await, Vec::new());
            for event in (nth..total).step_by(CONNECTIONS) {
                let request = event_request();
                let due = begin + Duration::from_secs_f64(event as f64 / rate as f64);
                sleep_until(due).await;
                send(&mut connection, request).await;
                taken.push(due.elapsed());
            }
            taken
        });
    }
    senders.join_all().await.concat()
}

async fn as_fast_as_possible(listen: SocketAddr, time: Duration) -> usize {
    let until = Instant::now() + time;
    let mut senders = JoinSet::new();
    for _ in 0..CONNECTIONS {
        senders.spawn(async move {
            let (mut connection, mut count) = (connect(listen).await, 0);
            while Instant::now() < until {
                send(&mut connection, event_request()).await;
                count += 1;
            }
            count
        });
    }
    senders.join_all().await.into_iter().sum()
}

async fn connect(listen: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(listen).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = client::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn send(connection: &mut SendRequest<Full<Bytes>>, request: Request<Full<Bytes>>) {
    connection.ready().await.unwrap();
    let answer = connection.send_request(request).await.unwrap();
    assert_eq!(answer.headers().get("hookonce-outcome").map(|value| value.as_bytes()), Some(&b"queued"[..]), "{answer:?}");
    answer.into_body().collect().await.unwrap();
}

/// A signed event that was never sent before.
fn event_request() -> Request<Full<Bytes>> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    static SIGNER: LazyLock<(Scheme, Key)> = LazyLock::new(|| {
        let scheme = preset::find("github").unwrap().compile().unwrap().scheme;
        let key = scheme.key(&Secret::new(SECRET)).unwrap();
        (scheme, key)
    });
    let (scheme, key) = &*SIGNER;
    let mut headers = HeaderMap::new();
    headers.insert("x-github-delivery", format!("event-{}", COUNT.fetch_add(1, Ordering::Relaxed)).parse().unwrap());
    headers.insert("content-type", "application/json".parse().unwrap());
    let body = Bytes::from(format!("{{\"padding\":\"{}\"}}", "x".repeat(BODY_BYTES - 14)));
    let mut draft = Draft { method: Method::POST, uri: "/".parse().unwrap(), headers, body };
    scheme.sign(key, &mut draft, SystemTime::now()).unwrap();
    let mut request = Request::post("/").header("host", "hooks.example.com").body(Full::new(draft.body)).unwrap();
    request.headers_mut().extend(draft.headers);
    request
}
