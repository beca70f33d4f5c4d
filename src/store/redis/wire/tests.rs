//! Against a server that says what a test tells it to, when it is told to.

use std::time::Duration;

use futures_util::future::join_all;
use redis::cmd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use super::*;
use crate::config::{Login, Secret};

const BUDGET: Duration = Duration::from_secs(5);
const INFO: &str = "$12\r\nrun_id:abc\r\n\r\n";

struct Server(TcpListener);

impl Server {
    async fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn address(&self) -> Address {
        Address { host: "127.0.0.1".to_owned(), port: self.0.local_addr().unwrap().port() }
    }

    fn wire(&self) -> Arc<Wire> {
        self.wire_as(&Login { user: None, password: None }, 0, &Arc::default())
    }

    fn wire_as(&self, login: &Login, database: u16, roll: &Arc<Roll>) -> Arc<Wire> {
        Arc::new(Wire::new(self.address(), Dialer::new(None, login, database, BUDGET), Arc::clone(roll)))
    }

    /// The next connection, before anything was said.
    async fn accept(&self) -> Seat {
        Seat(self.0.accept().await.unwrap().0)
    }

    /// The next connection, once it was greeted.
    async fn greet(&self) -> Seat {
        let mut seat = self.accept().await;
        seat.hear("INFO server").await;
        seat.say(INFO).await;
        seat
    }
}

struct Seat(TcpStream);

impl Seat {
    /// One read, which has to bring just this.
    async fn hear(&mut self, commands: &str) {
        let mut heard = vec![0; 64 * 1024];
        let length = self.0.read(&mut heard).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&heard[..length]), packed(commands));
    }

    async fn say(&mut self, answers: &str) {
        self.0.write_all(answers.as_bytes()).await.unwrap();
    }

    async fn is_over(&mut self) -> bool {
        matches!(self.0.read(&mut [0; 1]).await, Ok(0) | Err(_))
    }
}

/// Commands, a line each, as they are sent.
fn packed(commands: &str) -> String {
    let mut packed = Vec::new();
    for command in commands.lines() {
        let mut words = command.split(' ');
        let mut command = cmd(words.next().unwrap());
        for word in words {
            command.arg(word);
        }
        command.write_packed_command(&mut packed);
    }
    String::from_utf8(packed).unwrap()
}

async fn get(wire: &Wire, key: &str) -> Answer {
    wire.ask(cmd("GET").arg(key), false, Instant::now() + BUDGET).await
}

fn value(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

#[tokio::test]
async fn calls_share_a_write_and_get_their_own_answers() {
    let server = Server::start().await;
    let wire = server.wire();
    let calls = async { join_all(["a", "b", "c"].map(|key| get(&wire, key))).await };
    let serve = async {
        let mut seat = server.greet().await;
        seat.hear("GET a\nGET b\nGET c").await;
        seat.say("$1\r\n1\r\n$-1\r\n-ERR no\r\n").await;
        seat
    };
    let (answers, _seat) = tokio::join!(calls, serve);
    assert_eq!(answers[0], Ok(value("1")));
    assert_eq!(answers[1], Ok(Value::Nil));
    assert_eq!(answers[2].as_ref().unwrap_err().detail(), Some("no"));
}

#[tokio::test]
async fn an_answer_that_nobody_waits_for_any_more_is_nobody_elses() {
    let server = Server::start().await;
    let wire = server.wire();
    let asking = tokio::spawn({
        let wire = Arc::clone(&wire);
        async move { get(&wire, "gone").await }
    });
    let mut seat = server.greet().await;
    seat.hear("GET gone").await;
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    let serve = async {
        seat.hear("GET next").await;
        seat.say("$4\r\ngone\r\n$4\r\nnext\r\n").await;
    };
    assert_eq!(tokio::join!(get(&wire, "next"), serve).0, Ok(value("next")));
}

#[tokio::test(start_paused = true)]
async fn whose_time_is_up_is_told_and_the_late_answer_is_nobody_elses() {
    let server = Server::start().await;
    let wire = server.wire();
    let (began, ask) = (Instant::now(), |key: &'static str, seconds| {
        let (wire, until) = (Arc::clone(&wire), Instant::now() + Duration::from_secs(seconds));
        tokio::spawn(async move { (wire.ask(cmd("GET").arg(key), false, until).await, Instant::now()) })
    });
    let slow = ask("slow", 4);
    let mut seat = server.greet().await;
    seat.hear("GET slow").await;
    // One that comes later and has less time.
    let quick = ask("quick", 1);
    seat.hear("GET quick").await;
    for (asked, seconds) in [(quick, 1), (slow, 4)] {
        let (answer, at) = asked.await.unwrap();
        assert!(answer.unwrap_err().is_timeout());
        assert_eq!((at - began).as_secs(), seconds);
    }
    let serve = async {
        seat.hear("GET next").await;
        seat.say("$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n").await;
    };
    assert_eq!(tokio::join!(get(&wire, "next"), serve).0, Ok(value("3")));
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_is_made_again_without_an_error() {
    let server = Server::start().await;
    let wire = server.wire();
    for round in ["first", "second"] {
        let serve = async {
            let mut seat = server.greet().await;
            seat.hear(&format!("GET {round}")).await;
            seat.say("$-1\r\n").await;
        };
        assert_eq!(tokio::join!(get(&wire, round), serve).0, Ok(Value::Nil));
        while matches!(*wire.0.state(), State::Up(_)) {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn all_who_wait_hear_that_the_connection_broke() {
    for last_words in ["", "$5\r\nhal", "no answer\r\n", "+a\r\n+b\r\n+of nobody\r\n"] {
        let server = Server::start().await;
        let wire = server.wire();
        let serve = async {
            let mut seat = server.greet().await;
            seat.hear("GET a\nGET b").await;
            seat.say(last_words).await;
            assert!(last_words.is_empty() || last_words.starts_with('$') || seat.is_over().await);
        };
        let (answers, ()) = tokio::join!(join_all(["a", "b"].map(|key| get(&wire, key))), serve);
        if last_words.contains("nobody") {
            assert_eq!(answers, ["a", "b"].map(|said| Ok(Value::SimpleString(said.to_owned()))));
        } else {
            let is_told = |error: &RedisError| error.kind() == ErrorKind::Io && !error.is_timeout();
            assert!(answers.iter().all(|answer| is_told(answer.as_ref().unwrap_err())), "{last_words}");
        }
    }
}

#[tokio::test]
async fn one_that_is_dropped_leaves() {
    let server = Server::start().await;
    let wire = server.wire();
    let serve = async {
        let mut seat = server.greet().await;
        seat.hear("GET a").await;
        seat.say("$-1\r\n").await;
        seat
    };
    let (answer, mut seat) = tokio::join!(get(&wire, "a"), serve);
    assert_eq!(answer, Ok(Value::Nil));
    drop(wire);
    assert!(seat.is_over().await);
}

/// Whoever asked has gone, and so has the view that named the server.
#[tokio::test]
async fn one_that_is_dropped_before_it_is_connected_leaves_too() {
    let server = Server::start().await;
    let wire = server.wire();
    let asking = tokio::spawn({
        let wire = Arc::clone(&wire);
        async move { get(&wire, "a").await }
    });
    let mut seat = server.accept().await;
    seat.hear("INFO server").await;
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    drop(wire);
    seat.say(INFO).await;
    assert!(timeout(BUDGET, seat.is_over()).await.unwrap());
}

#[tokio::test]
async fn asking_is_said_with_what_it_is_for() {
    let server = Server::start().await;
    let wire = server.wire();
    let asking = async { wire.ask(cmd("GET").arg("a"), true, Instant::now() + BUDGET).await };
    let serve = async {
        let mut seat = server.greet().await;
        seat.hear("ASKING\nGET a").await;
        seat.say("+OK\r\n$1\r\n1\r\n").await;
        seat
    };
    assert_eq!(tokio::join!(asking, serve).0, Ok(value("1")));
}

#[tokio::test]
async fn a_server_has_said_who_it_is_before_it_is_asked_anything_else() {
    let server = Server::start().await;
    let (roll, login) = (Arc::<Roll>::default(), login());
    roll.met(&server.address(), "another");
    let wire = server.wire_as(&login, 7, &roll);
    let serve = async {
        let mut seat = server.accept().await;
        seat.hear("AUTH user password\nSELECT 7\nINFO server").await;
        seat.say("+OK\r\n+OK\r\n").await;
        sleep(Duration::from_millis(20)).await;
        assert_eq!(roll.replaced(), None);
        seat.say(INFO).await;
        seat.hear("GET a").await;
        assert!(roll.replaced().is_some());
        seat.say("$-1\r\n").await;
    };
    assert_eq!(tokio::join!(get(&wire, "a"), serve).0, Ok(Value::Nil));
}

fn login() -> Login {
    Login { user: Some("user".to_owned()), password: Some(Secret::new(b"password".to_vec())) }
}

#[tokio::test]
async fn a_server_from_before_there_were_users_is_told_the_password_alone() {
    let server = Server::start().await;
    let wire = server.wire_as(&login(), 0, &Arc::default());
    let serve = async {
        let mut seat = server.accept().await;
        seat.hear("AUTH user password\nINFO server").await;
        seat.say("-ERR wrong number of arguments for 'auth' command\r\n-NOAUTH Authentication required.\r\n").await;
        seat.hear("AUTH password\nINFO server").await;
        seat.say(&format!("+OK\r\n{INFO}")).await;
        seat.hear("GET a").await;
        seat.say("$-1\r\n").await;
    };
    assert_eq!(tokio::join!(get(&wire, "a"), serve).0, Ok(Value::Nil));
}

#[tokio::test]
async fn who_is_not_let_in_is_told_why_and_tries_again_with_the_next_call() {
    let server = Server::start().await;
    let wire = server.wire_as(&login(), 0, &Arc::default());
    for _ in 0..2 {
        let serve = async {
            let mut seat = server.accept().await;
            seat.hear("AUTH user password\nINFO server").await;
            seat.say("-WRONGPASS invalid username-password pair\r\n-NOAUTH Authentication required.\r\n").await;
            assert!(seat.is_over().await);
        };
        let error = tokio::join!(get(&wire, "a"), serve).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AuthenticationFailed);
        assert!(error.to_string().contains("WRONGPASS invalid username-password pair"), "{error}");
        assert!(!error.to_string().contains("password\""), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_not_asked_without_end() {
    let server = Server::start().await;
    let wire = server.wire();
    let (connected, _seat) = tokio::join!(wire.0.connected(Instant::now() + BUDGET), server.greet());
    connected.unwrap();
    let asked: Vec<_> = (0..UNANSWERED_MAX)
        .map(|_| wire.0.leave(cmd("GET").arg("a"), false, Instant::now() + BUDGET).unwrap().unwrap())
        .collect();
    let refused = get(&wire, "a").await.unwrap_err();
    assert!(refused.kind() == ErrorKind::Io && !refused.is_timeout(), "{refused}");
    drop(asked);
}

/// One that is stuck is not to hold the bodies of all that were given up.
#[tokio::test]
async fn only_so_much_waits_to_be_written() {
    let server = Server::start().await;
    let wire = server.wire();
    let (connected, _seat) = tokio::join!(wire.0.connected(Instant::now() + BUDGET), server.greet());
    connected.unwrap();
    let (letter, mut taken) = (vec![b'x'; 1 << 20], 0);
    let refused = loop {
        match wire.0.leave(cmd("SET").arg("a").arg(&letter[..]), false, Instant::now() + BUDGET).unwrap() {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(refused.kind() == ErrorKind::Io && taken == UNWRITTEN_BYTES_MAX >> 20, "{taken}: {refused}");
}
