//! Giving spans to a collector: OTLP over HTTP, in its JSON form, a batch a second at most.
//!
//! A collector that is slow or away costs deliveries nothing: what it does not take in time is dropped, and counted.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use http_body_util::Full;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{Note, Span};
use crate::config::TraceConfig;
use crate::telemetry::log::chain;
use crate::telemetry::metrics::SpanMetrics;

/// Spans of one request to the collector, and how long they are gathered.
const BATCH: usize = 512;
const GATHER: Duration = Duration::from_secs(1);
/// A collector has this long for one batch, and is asked again after a pause where it may take it then.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// When the program ends, what is left has this long.
const LAST_WORDS: Duration = Duration::from_secs(2);

type Connector = HttpsConnector<HttpConnector>;

/// Whoever takes spans.
#[derive(Debug)]
pub struct Collector {
    client: Client<Connector, Full<Bytes>>,
    endpoint: Uri,
    headers: HeaderMap,
}

/// Takes spans from deliveries and gives them to the collector.
#[derive(Debug)]
pub struct Exporter {
    collector: Collector,
    service_name: String,
    spans: mpsc::Receiver<Vec<Span>>,
    /// What goes next.
    batch: Vec<Span>,
    metrics: SpanMetrics,
    /// Whether the last batch was taken; said only when it changes.
    is_heard: bool,
}

impl Exporter {
    pub fn new(config: &TraceConfig, connector: Connector, spans: mpsc::Receiver<Vec<Span>>, metrics: SpanMetrics) -> Self {
        let (collector, service_name) = (Collector::new(config, connector), config.service_name.clone());
        Self { collector, service_name, spans, batch: Vec::new(), metrics, is_heard: true }
    }

    /// Exports until nobody makes spans any more. It may be dropped at any point: what is left is for `finish`.
    pub async fn run(&mut self) {
        while let Some(spans) = self.spans.recv().await {
            self.batch.extend(spans);
            self.gather().await;
            self.send(&PAUSES).await;
        }
    }

    /// Exports what is left, as far as there is time.
    pub async fn finish(&mut self) {
        let rest = async {
            loop {
                while self.batch.len() < BATCH
                    && let Ok(spans) = self.spans.try_recv()
                {
                    self.batch.extend(spans);
                }
                if self.batch.is_empty() {
                    return;
                }
                self.send(&[]).await;
            }
        };
        let _ = timeout(LAST_WORDS, rest).await;
    }

    async fn gather(&mut self) {
        let until = Instant::now() + GATHER;
        while self.batch.len() < BATCH
            && let Ok(Some(spans)) = timeout_at(until, self.spans.recv()).await
        {
            self.batch.extend(spans);
        }
    }

    /// Sends the batch, and lets go of it whatever comes of that.
    async fn send(&mut self, pauses: &[Duration]) {
        let body = Bytes::from(encode(&self.service_name, &self.batch).to_string());
        let mut pauses = pauses.iter();
        let sent = loop {
            match (self.collector.post(body.clone()).await, pauses.next()) {
                (Err(Trouble { may_pass: true, .. }), Some(pause)) => sleep(*pause).await,
                (sent, _) => break sent,
            }
        };
        let counter = if sent.is_ok() { &self.metrics.exported } else { &self.metrics.failed };
        counter.inc_by(self.batch.len() as u64);
        self.batch.clear();
        match sent {
            Err(trouble) if self.is_heard => {
                tracing::warn!(endpoint = %self.collector.endpoint, why = trouble.why, "spans are not taken; deliveries are not affected");
                self.is_heard = false;
            }
            Ok(()) if !self.is_heard => {
                tracing::info!("spans are taken again");
                self.is_heard = true;
            }
            _ => {}
        }
    }
}

impl Collector {
    pub fn new(config: &TraceConfig, connector: Connector) -> Self {
        let mut headers: HeaderMap = config.headers.iter().cloned().collect();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Self { client, endpoint: config.endpoint.clone(), headers }
    }

    /// Whether it would take spans: it is given none.
    pub async fn probe(&self) -> Result<(), String> {
        self.post(encode("", &[]).to_string().into()).await.map_err(|trouble| trouble.why)
    }

    async fn post(&self, body: Bytes) -> Result<(), Trouble> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.clone();
        *request.headers_mut() = self.headers.clone();
        let passing = |why: String| Trouble { why, may_pass: true };
        let answering = timeout(SEND_TIMEOUT, self.client.request(request)).await;
        let answer = answering
            .map_err(|_| passing("no answer in time".to_owned()))?
            .map_err(|error| passing(chain(&error).to_string()))?;
        let status = answer.status();
        // Those that the protocol calls passing; others would only be repeated.
        let may_pass = matches!(status.as_u16(), 429 | 502 | 503 | 504);
        if status.is_success() { Ok(()) } else { Err(Trouble { why: format!("the collector answered {status}"), may_pass }) }
    }
}

/// Why a batch was not taken.
struct Trouble {
    why: String,
    may_pass: bool,
}

/// `ExportTraceServiceRequest` of OTLP 1, in its JSON form: ids are hexadecimal there, numbers of 64 bits are text.
fn encode(service_name: &str, spans: &[Span]) -> Value {
    let resource = [("service.name", service_name), ("service.version", env!("CARGO_PKG_VERSION"))];
    let resource: Vec<Value> = resource.iter().map(|(key, value)| note(key, &Note::from(*value))).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{
            "scope": { "name": "hookonce", "version": env!("CARGO_PKG_VERSION") },
            "spans": spans.iter().map(span).collect::<Vec<_>>(),
        }],
    }] })
}

fn span(span: &Span) -> Value {
    let Span { context, parent, name, kind, start, end, notes, error } = span;
    let mut value = json!({
        "traceId": context.trace.to_string(),
        "spanId": context.span.to_string(),
        "name": name,
        "kind": *kind as u8,
        "startTimeUnixNano": nanos(*start),
        "endTimeUnixNano": nanos(*end),
        "attributes": notes.iter().map(|(key, value)| note(key, value)).collect::<Vec<_>>(),
        "flags": 1,
    });
    if let Some(parent) = parent {
        value["parentSpanId"] = parent.to_string().into();
    }
    if let Some(error) = error {
        value["status"] = json!({ "code": 2, "message": error });
    }
    value
}

fn note(key: &str, note: &Note) -> Value {
    let value = match note {
        Note::Text(text) => json!({ "stringValue": text }),
        Note::Number(number) => json!({ "intValue": number.to_string() }),
    };
    json!({ "key": key, "value": value })
}

fn nanos(at: SystemTime) -> String {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}
