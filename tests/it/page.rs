//! The live page and what is behind it: who may see it, what it is told, and that nobody else has to wait for it.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use data_encoding::BASE64;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::support::consumer::{Act, Consumer};
use crate::support::instance::Instance;
use crate::support::proxy::{Proxy, in_front_of};
use crate::support::redis::quiet_port;
use crate::support::sender::{Answer, Delivery, github, stripe, stripe_with};
use crate::support::wire::Wire;
use crate::support::{PATIENCE, eventually};

const TOKEN: &str = "0123456789abcdef";
const STREAMS_MAX: usize = 64;

async fn get(proxy: &Proxy, path: &str) -> Answer {
    proxy.admin(&Delivery::plain("GET", path)).await
}

fn bearer(request: Delivery) -> Delivery {
    request.with("authorization", &format!("Bearer {TOKEN}"))
}

/// As a browser sends it: any user, the token as the password.
fn basic(request: Delivery) -> Delivery {
    request.with("authorization", &format!("Basic {}", BASE64.encode(format!("me:{TOKEN}").as_bytes())))
}

/// A page's stream of events.
struct Stream {
    body: Incoming,
    read: Vec<u8>,
}

impl Stream {
    async fn open(admin: SocketAddr) -> Result<Self, u16> {
        let socket = TcpStream::connect(admin).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("/api/stream").header("host", "localhost").body(Empty::<Bytes>::new()).unwrap();
        let response = timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
        if response.status() != 200 {
            return Err(response.status().as_u16());
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Ok(Self { body: response.into_body(), read: Vec::new() })
    }

    /// The next event, its name and what it says. `None` at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            let text = String::from_utf8_lossy(&self.read).into_owned();
            if let Some((event, _)) = text.split_once("\n\n") {
                self.read.drain(..event.len() + 2);
                let (name, data) = event.split_once('\n').unwrap();
                let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
                return Some((name.strip_prefix("event: ").unwrap().to_owned(), data));
            }
            match timeout(PATIENCE, self.body.frame()).await.expect("the stream says something or ends") {
                Some(Ok(frame)) => self.read.extend_from_slice(frame.data_ref().unwrap()),
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// The first event, which holds everything.
    async fn snapshot(&mut self) -> Value {
        let (name, told) = self.next().await.unwrap();
        assert_eq!(name, "snapshot");
        told
    }

    /// Events from here on, until one of them holds this.
    async fn until<T>(&mut self, what: &str, mut found: impl FnMut(&Value) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        loop {
            let (name, told) = self.next().await.unwrap();
            assert_eq!(name, "state");
            if let Some(found) = found(&told) {
                return found;
            }
            assert!(Instant::now() < until, "this never came: {what}");
        }
    }
}

/// What is told of a provider.
fn provider<'a>(told: &'a Value, name: &str) -> Option<&'a Value> {
    told["providers"].as_array().unwrap().iter().find(|provider| provider["name"] == name)
}

fn deliveries(told: &Value) -> &Vec<Value> {
    told["deliveries"].as_array().unwrap()
}

#[tokio::test]
async fn the_page_is_whole_and_bound_to_this_address() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    let page = get(&proxy, "/").await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").unwrap();
    let rules = ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data:"];
    for rule in [&rules[..], &["form-action 'none'", "frame-ancestors 'none'", "base-uri 'none'"]].concat() {
        assert!(policy.split("; ").any(|own| own == rule), "{rule}");
    }
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    // Whatever the page and its scripts name is there.
    let mut wanted = vec!["page/page.css".to_owned(), "page/page.js".to_owned()];
    let mut seen = 0;
    while let Some(path) = wanted.pop() {
        let part = get(&proxy, &format!("/{path}")).await;
        let kind = if path.ends_with("css") { "text/css; charset=utf-8" } else { "text/javascript; charset=utf-8" };
        assert_eq!((part.status, part.header("content-type")), (200, Some(kind)), "{path}");
        assert_eq!(part.header("content-security-policy"), Some(policy));
        let text = String::from_utf8(part.body.to_vec()).unwrap();
        let imported = text.split(" from \"./").skip(1).map(|rest| format!("page/{}", rest.split('"').next().unwrap()));
        wanted.extend(imported);
        seen += 1;
        assert!(!text.contains("innerHTML") && !text.contains("localStorage") && !text.contains("sessionStorage"), "{path}");
    }
    assert!(seen > 8, "{seen}");
    assert_eq!(proxy.admin(&Delivery::plain("HEAD", "/")).await.status, 200);
    assert_eq!(proxy.admin(&Delivery::plain("POST", "/")).await.status, 403);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_browser_is_asked_for_the_token_and_a_password_changes_nothing() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).top(&format!("admin_token = \"{TOKEN}\"")).start();
    proxy.send(&stripe("e1")).await;
    let challenge = Some("Basic realm=\"hookonce\", charset=\"UTF-8\"");
    let html = |path| Delivery::plain("GET", path).with("accept", "text/html,*/*");
    for request in [Delivery::plain("GET", "/"), html("/"), html("/api/config")] {
        let answer = proxy.admin(&request).await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, challenge), "{}", request.path);
    }
    for path in ["/page/page.js", "/api/config", "/api/stream", "/api/events?provider=stripe", "/api/queue"] {
        let answer = get(&proxy, path).await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, None), "{path}");
    }
    for path in ["/", "/page/page.js", "/api/config", "/api/events/stripe/e1", "/api/queue", "/api/bypass"] {
        assert_eq!(proxy.admin(&basic(Delivery::plain("GET", path))).await.status, 200, "{path}");
        assert_eq!(proxy.admin(&bearer(Delivery::plain("GET", path))).await.status, 200, "{path}");
    }
    for (method, path) in
        [("DELETE", "/api/events/stripe/e1"), ("PUT", "/api/bypass/stripe"), ("POST", "/api/queue/stripe/x/retry")]
    {
        let answer = proxy.admin(&basic(Delivery::plain(method, path).with("accept", "text/html"))).await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, None), "{method} {path}");
    }
    assert_eq!(proxy.admin(&bearer(Delivery::plain("GET", "/api/events/stripe/e1"))).await.json()["state"], "done");
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn without_a_token_a_name_that_leads_here_opens_nothing() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    let asked = async |path: &str, host: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
        Wire::with(proxy.admin, head.as_bytes()).await.answer().await.status
    };
    let port = proxy.admin.port();
    for path in ["/", "/page/page.js", "/api/config", "/api/events?provider=stripe", "/api/queue", "/api/bypass", "/api/stream"] {
        assert_eq!(asked(path, &format!("rebound.example:{port}")).await, 403, "{path}");
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(asked(path, "rebound.example").await, 200, "{path}");
    }
    for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}"), "[::1]".to_owned()] {
        assert_eq!(asked("/api/config", &host).await, 200, "{host}");
    }
    let foreign = Delivery::plain("GET", "/api/stream").with("sec-fetch-site", "cross-site").with("sec-fetch-mode", "cors");
    assert_eq!(proxy.admin(&foreign).await.status, 403);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn the_configuration_is_told_with_where_it_came_from() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).stripe("lease = \"20s\"").start();
    let told = get(&proxy, "/api/config").await.json();
    let setting = |section: &str, key: &str| {
        let section = told["sections"].as_array().unwrap().iter().find(|its| its["name"] == section).unwrap();
        let setting = section["settings"].as_array().unwrap().iter().find(|its| its["key"] == key).unwrap();
        (setting["value"].as_str().unwrap().to_owned(), setting["origin"].as_str().unwrap().to_owned())
    };
    let (value, origin) = setting("providers.stripe", "lease");
    assert_eq!(value, "\"20s\"");
    assert!(origin.starts_with("line "), "{origin}");
    assert_eq!(setting("providers.github", "lease"), ("\"15s\"".to_owned(), "default".to_owned()));
    assert_eq!(setting("providers.github", "event_id").1, "preset github");
    assert_eq!(setting("store", "namespace").0, "\"test\"");
    assert_eq!(setting("", "listen").0, "\"127.0.0.1:0\"");
    assert_eq!(proxy.admin(&Delivery::plain("GET", "/api/config/x")).await.status, 404);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn no_secret_is_told_wherever_it_is_written() {
    let consumer = Consumer::answering(200).await;
    let mut file = NamedTempFile::new().unwrap();
    writeln!(file, "canary-in-a-file-0123456789").unwrap();
    let guarded = "[providers.feed]\npath = \"/feed\"\nsecret = \"canary-of-feed-0123456789\"\nevent_id = { json = \"/id\" }\n\
         scheme = { signature = { header = \"X-Signature\" } }\n[providers.feed.handshake]\nsigned = false\nmethod = \"GET\"\n\
         when = { query = \"hub.mode\", is = \"subscribe\" }\nreply = { query = \"hub.challenge\" }\n\
         token = { query = \"hub.verify_token\", secret = \"canary-of-the-challenge\" }\n";
    let several = format!(
        "[providers.jobs]\npreset = \"github\"\npath = \"/jobs\"\n\
         secrets = [\"canary-in-a-list-0123456789\", {{ env = \"CANARY\" }}, {{ file = \"{}\" }}]\n",
        file.path().display()
    );
    let store = format!("redis://canary-user:canary-password@127.0.0.1:{}", quiet_port());
    let setup =
        in_front_of(&consumer).store(&store).table(guarded).table(&several).top(&format!("admin_token = \"{TOKEN}-canary\""));
    let mut command = crate::support::program::hookonce();
    command.env("CANARY", "canary-in-a-variable-0123456789");
    let instance = Instance::start_as(command, &setup).await;
    instance.send(&stripe_with("{\"id\":\"e1\",\"object\":\"event\",\"secret\":\"canary-in-a-body\"}")).await;
    let token = format!("Bearer {TOKEN}-canary");
    let stream = format!("GET /api/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: {token}\r\n\r\n");
    let mut stream = Wire::with(instance.admin, stream.as_bytes()).await;
    stream.heard("event: snapshot").await;
    stream.heard("event: state").await;
    let mut told = vec![stream.said()];
    for path in ["/api/config", "/", "/metrics", "/readyz?verbose"] {
        let answer = Delivery::plain("GET", path).with("authorization", &token).send(instance.admin).await;
        assert_eq!(answer.status, 200);
        told.push(String::from_utf8(answer.body.to_vec()).unwrap());
    }
    for text in &told {
        assert!(!text.contains("canary-") && !text.contains("-canary"), "{text}");
    }
    // What may be known is: that there are secrets, where they were read from, and where the store is.
    assert!(told[1].contains("variable CANARY") && told[1].contains("secret = set") && told[1].contains("redis://***@127.0.0.1"));
    assert!(told[0].contains("redis://***@127.0.0.1"), "{}", told[0]);
}

#[tokio::test]
async fn the_stream_begins_with_everything_and_goes_on_with_what_is_new() {
    let consumer = Consumer::deciding(|seen, _| Act::Answer(if seen.event_id() == "bad" { 500 } else { 200 })).await;
    let proxy = in_front_of(&consumer).start();
    proxy.send(&stripe("before")).await;
    let mut stream = Stream::open(proxy.admin).await.unwrap();
    let first = stream.snapshot().await;
    assert_eq!(first["instance"]["listen"], proxy.listen.to_string());
    assert_eq!(first["instance"]["admin"], proxy.admin.to_string());
    assert_eq!(first["instance"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((first["instance"]["changes"].as_bool(), first["state"]["draining"].as_bool()), (Some(false), Some(false)));
    assert_eq!(first["state"]["store"]["url"], "memory:");
    assert_eq!(deliveries(&first).len(), 1);
    let names: Vec<_> = first["providers"].as_array().unwrap().iter().map(|its| its["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["github", "stripe"]);
    let one = &deliveries(&first)[0];
    assert_eq!((one["provider"].as_str(), one["event"].as_str()), (Some("stripe"), Some("before")));
    assert_eq!(
        (one["outcome"].as_str(), one["status"].as_u64(), one["attempt"].as_u64()),
        (Some("forwarded"), Some(200), Some(1))
    );
    assert_eq!((one["reason"].as_str(), one["mark"].is_null()), (Some("the consumer answered 200"), true));
    assert!(one["ms"].as_f64().unwrap() > 0.0 && one["at"].as_str().unwrap().ends_with('Z'));

    proxy.send(&stripe("before")).await;
    proxy.send(&github("bad")).await;
    let (mut seen, mut stripe) = (Vec::new(), Value::Null);
    stream
        .until("two deliveries, and what they come to", |told| {
            let new = deliveries(told).iter().map(|its| (its["event"].as_str().unwrap().to_owned(), its["outcome"].clone()));
            seen.extend(new);
            stripe = provider(told, "stripe").cloned().unwrap_or(stripe.take());
            (seen.len() >= 2 && stripe["hits"] == 1).then_some(())
        })
        .await;
    assert_eq!(seen, [("before".to_owned(), "duplicate".into()), ("bad".to_owned(), "failed".into())]);
    assert_eq!(
        (stripe["misses"].as_u64(), &stripe["outcomes"]),
        (Some(1), &serde_json::json!({ "forwarded": 1, "duplicate": 1 }))
    );
    assert_eq!(stripe["secrets"][0]["matches"], 2);
    assert_eq!(stripe["window"]["kinds"], serde_json::json!([1, 1, 0, 0, 0]));
    assert!(stripe["overhead"]["p99"].is_array() && stripe["bars"].as_array().unwrap().len() <= 2);
    // A page that is opened later gets all of it at once.
    let later = Stream::open(proxy.admin).await.unwrap().snapshot().await;
    assert_eq!(deliveries(&later).len(), 3);
    assert_eq!(provider(&later, "stripe").unwrap()["window"], stripe["window"]);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn forged_deliveries_name_no_event_and_push_out_no_other() {
    let consumer = Consumer::answering(200).await;
    // Also where they are let through.
    let proxy = in_front_of(&consumer).github("enforce = false").start();
    proxy.send(&stripe("genuine")).await;
    for nth in 0..30 {
        let signature = format!("sha256={}", "0".repeat(64));
        let passed = github(&format!("forged-{nth}")).with("x-hub-signature-256", &signature);
        assert_eq!(proxy.send(&passed).await.outcome(), "forwarded");
        let refused = stripe(&format!("forged-{nth}")).with("stripe-signature", "t=1,v1=00");
        assert_eq!(proxy.send(&refused).await.outcome(), "rejected");
    }
    let told = Stream::open(proxy.admin).await.unwrap().snapshot().await;
    let genuine: Vec<_> = deliveries(&told).iter().filter(|its| its["verified"] == true).collect();
    assert_eq!((genuine.len(), genuine[0]["event"].as_str()), (1, Some("genuine")));
    assert_eq!(deliveries(&told).len(), 51);
    assert!(!told.to_string().contains("forged-"), "{told}");
    assert_eq!(provider(&told, "github").unwrap()["disproofs"], serde_json::json!({ "no_match": 30 }));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn probes_and_scrapes_are_answered_while_as_many_pages_are_open_as_can_be() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    let mut streams = Vec::new();
    for _ in 0..STREAMS_MAX {
        streams.push(Stream::open(proxy.admin).await.unwrap());
    }
    assert_eq!(Stream::open(proxy.admin).await.err(), Some(503));
    for path in ["/healthz", "/readyz", "/metrics", "/", "/api/config"] {
        let asked = Instant::now();
        assert_eq!(get(&proxy, path).await.status, 200, "{path}");
        assert!(asked.elapsed() < Duration::from_secs(2), "{path}");
    }
    for stream in &mut streams {
        stream.snapshot().await;
        assert_eq!(stream.next().await.unwrap().0, "state");
    }
    // Whoever leaves makes room.
    drop(streams.pop());
    eventually("a place", async || Stream::open(proxy.admin).await.ok()).await;
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_stream_tells_of_draining_and_ends_with_the_program() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).table("[drain]\ndelay = \"2s\"\ntimeout = \"5s\"").start();
    let mut stream = Stream::open(proxy.admin).await.unwrap();
    stream.snapshot().await;
    let stopping = tokio::spawn(proxy.stop());
    stream.until("draining", |told| (told["state"]["draining"] == true).then_some(())).await;
    let began = Instant::now();
    while stream.next().await.is_some() {}
    assert!(stopping.await.unwrap());
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_cannot_be_done_with_a_stream_is_said() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).top(&format!("admin_token = \"{TOKEN}\"")).start();
    for (method, path, status) in
        [("HEAD", "/api/stream", 405), ("POST", "/api/stream", 405), ("DELETE", "/api/config", 405), ("PUT", "/", 405)]
    {
        let answer = proxy.admin(&bearer(Delivery::plain(method, path))).await;
        assert_eq!((answer.status, answer.header("allow").is_some()), (status, true), "{method} {path}");
    }
    assert_eq!(proxy.admin(&bearer(Delivery::plain("GET", "/api/stream/x"))).await.status, 404);
    assert!(proxy.stop().await);
}
