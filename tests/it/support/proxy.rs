//! The proxy in this process: the whole program but its command line, on ports of its own.

use std::net::SocketAddr;

use hookonce::app::App;
use hookonce::config::{Config, Environment};
use serde_json::Value;
use tokio::task::JoinHandle;

use super::consumer::Consumer;
use super::eventually;
use super::metrics::Metrics;
use super::sender::{Answer, Delivery, SECRET};

pub struct Proxy {
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    app: Option<App>,
}

/// A configuration in the making: GitHub at `/github` and Stripe at `/stripe`, in front of one consumer.
#[derive(Clone, Debug)]
pub struct Setup {
    store: String,
    store_keys: String,
    upstream: String,
    top: String,
    tables: String,
    github: String,
    stripe: String,
}

/// In front of this consumer, on a store in memory.
pub fn in_front_of(consumer: &Consumer) -> Setup {
    let empty = String::new();
    Setup {
        store: "memory:".to_owned(),
        store_keys: empty.clone(),
        upstream: consumer.url(),
        top: empty.clone(),
        tables: empty.clone(),
        github: empty.clone(),
        stripe: empty,
    }
}

impl Setup {
    pub fn store(mut self, url: &str) -> Self {
        self.store = url.to_owned();
        self
    }

    /// Keys of `[store]`.
    pub fn store_keys(mut self, text: &str) -> Self {
        self.store_keys += &format!("{text}\n");
        self
    }

    pub fn upstream(mut self, url: &str) -> Self {
        self.upstream = url.to_owned();
        self
    }

    /// Keys of the top level.
    pub fn top(mut self, text: &str) -> Self {
        self.top += &format!("{text}\n");
        self
    }

    /// Whole tables.
    pub fn table(mut self, text: &str) -> Self {
        self.tables += &format!("{text}\n");
        self
    }

    /// Keys of `[providers.github]`.
    pub fn github(mut self, text: &str) -> Self {
        self.github += &format!("{text}\n");
        self
    }

    /// Keys of `[providers.stripe]`.
    pub fn stripe(mut self, text: &str) -> Self {
        self.stripe += &format!("{text}\n");
        self
    }

    /// Keys of both providers.
    pub fn both(self, text: &str) -> Self {
        self.github(text).stripe(text)
    }

    pub fn text(&self) -> String {
        let Self { store, store_keys, upstream, top, tables, github, stripe } = self;
        let drain = if tables.contains("[drain]") { "" } else { "[drain]\ndelay = \"0s\"\ntimeout = \"5s\"\n" };
        format!(
            "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nupstream = \"{upstream}\"\n{top}\n\
             [store]\nurl = \"{store}\"\nnamespace = \"test\"\n{store_keys}{drain}{tables}\n\
             [providers.github]\npath = \"/github\"\nsecret = \"{SECRET}\"\n{github}\n\
             [providers.stripe]\npath = \"/stripe\"\nsecret = \"{SECRET}\"\n{stripe}\n"
        )
    }

    pub fn start(&self) -> Proxy {
        let loaded = Config::from_text(&self.text(), &Environment::default());
        let loaded = loaded.unwrap_or_else(|problems| panic!("{problems:#?}\n{}", self.text()));
        let app = App::start(loaded.config).unwrap();
        Proxy { listen: app.listen, admin: app.admin, app: Some(app) }
    }
}

/// What each of them got.
pub async fn answers(sent: Vec<JoinHandle<Answer>>) -> Vec<Answer> {
    let mut answers = Vec::with_capacity(sent.len());
    for one in sent {
        answers.push(one.await.unwrap());
    }
    answers
}

impl Proxy {
    pub async fn send(&self, delivery: &Delivery) -> Answer {
        delivery.send(self.listen).await
    }

    /// Sends without waiting for the answer.
    pub fn sending(&self, delivery: &Delivery) -> JoinHandle<Answer> {
        let (delivery, to) = (delivery.clone(), self.listen);
        tokio::spawn(async move { delivery.send(to).await })
    }

    /// Sends copies at once, and waits until all of them have been verified: they are under way then.
    pub async fn sending_copies(&self, delivery: &Delivery, count: usize) -> Vec<JoinHandle<Answer>> {
        let provider = delivery.path.trim_start_matches('/');
        let labels = [("provider", provider), ("slot", "0")];
        let before = self.metrics().await.value("hookonce_secret_matches_total", &labels);
        let copies = (0..count).map(|_| self.sending(delivery)).collect();
        self.counted("hookonce_secret_matches_total", &labels, before + count as f64).await;
        copies
    }

    /// Asks the admin side.
    pub async fn admin(&self, request: &Delivery) -> Answer {
        request.send(self.admin).await
    }

    pub async fn metrics(&self) -> Metrics {
        Metrics::of(self.admin).await
    }

    /// Waits until a counter, or a gauge, has come to this.
    pub async fn counted(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        let what = format!("{name} {labels:?} at {value}");
        let is_there = async || (self.metrics().await.value(name, labels) == value).then_some(());
        eventually(&what, is_there).await;
    }

    /// Waits until a counter has come to this, or further.
    pub async fn counted_at_least(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        let what = format!("{name} {labels:?} at {value} or more");
        let is_there = async || (self.metrics().await.value(name, labels) >= value).then_some(());
        eventually(&what, is_there).await;
    }

    /// Waits until so many deliveries of a provider have ended so.
    pub async fn ended(&self, provider: &str, outcome: &str, count: f64) {
        self.counted("hookonce_deliveries_total", &[("provider", provider), ("outcome", outcome)], count).await;
    }

    /// What the store knows of an event.
    pub async fn event(&self, provider: &str, id: &str) -> Option<Value> {
        self.looked_up(provider, id).await.unwrap_or_else(|refused| panic!("{}: {:?}", refused.status, refused.body))
    }

    /// Waits until the store has an event in this state. A store that was away serves one call at a time until the first is
    /// answered, so that a look may be refused though the store is back.
    pub async fn in_state(&self, provider: &str, id: &str, state: &str) {
        let is_there = async || self.looked_up(provider, id).await.ok().flatten().filter(|event| event["state"] == state);
        eventually(&format!("{provider} {id} is {state}"), is_there).await;
    }

    async fn looked_up(&self, provider: &str, id: &str) -> Result<Option<Value>, Answer> {
        let answer = self.admin(&Delivery::plain("GET", &format!("/api/events/{provider}/{id}"))).await;
        match answer.status {
            200 => Ok(Some(answer.json())),
            404 => Ok(None),
            _ => Err(answer),
        }
    }

    /// Goes on by another configuration.
    pub async fn reload(&self, setup: &Setup) -> Result<Vec<String>, Vec<String>> {
        let loaded = Config::from_text(&setup.text(), &Environment::default()).unwrap();
        let reloaded = self.app.as_ref().unwrap().reload(loaded.config).await;
        reloaded.map_err(|problems| problems.into_iter().map(|problem| problem.key).collect())
    }

    /// Stops in order; tells whether everything was finished.
    pub async fn stop(mut self) -> bool {
        self.app.take().unwrap().stop().await
    }
}
