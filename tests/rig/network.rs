//! The network of the rig fails as it is told to, and only so.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use super::support::eventually;
use super::support::fault_proxy::{Fault, FaultProxy, Way};

/// Long enough to see that nothing comes.
const SILENT: Duration = Duration::from_millis(150);

/// In front of a server that says everything back.
async fn network() -> FaultProxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    FaultProxy::to(address).await
}

async fn connect(network: &FaultProxy) -> TcpStream {
    TcpStream::connect(network.address()).await.unwrap()
}

/// Says something and reads as much again.
async fn echo(stream: &mut TcpStream, word: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(word).await?;
    heard(stream, word.len()).await
}

async fn heard(stream: &mut TcpStream, length: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn is_silent(stream: &mut TcpStream) -> bool {
    timeout(SILENT, stream.read_u8()).await.is_err()
}

/// Everything up to the connection's end, and how it ended.
async fn rest(stream: &mut TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes).await;
    (bytes, end.err().map(|error| error.kind()))
}

#[tokio::test]
async fn without_a_fault_everything_passes_and_ends_are_passed_on() {
    let network = network().await;
    let mut stream = connect(&network).await;
    let long = vec![7; 1 << 20];
    let (mut from, mut to) = stream.split();
    let (written, read) = tokio::join!(to.write_all(&long), async {
        let mut bytes = vec![0; long.len()];
        from.read_exact(&mut bytes).await.map(|_| bytes)
    });
    written.unwrap();
    assert!(read.unwrap() == long);
    stream.shutdown().await.unwrap();
    assert_eq!(rest(&mut stream).await, (vec![], None));
}

#[tokio::test]
async fn a_delay_holds_every_word_back() {
    let network = network().await;
    let mut stream = connect(&network).await;
    network.set(Fault::Delay(Duration::from_millis(100)));
    let began = Instant::now();
    assert_eq!(echo(&mut stream, b"word").await.unwrap(), b"word");
    assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_is_lost_one_way_never_comes_and_the_connection_ends_with_the_fault() {
    for (way, is_told) in [(Way::There, false), (Way::Back, true)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let network = FaultProxy::to(listener.local_addr().unwrap()).await;
        let mut near = connect(&network).await;
        let (mut far, _) = listener.accept().await.unwrap();
        network.set(Fault::Lose(way));
        near.write_all(b"there").await.unwrap();
        far.write_all(b"back").await.unwrap();
        if is_told {
            assert_eq!(heard(&mut far, 5).await.unwrap(), b"there");
            assert!(is_silent(&mut near).await);
        } else {
            assert_eq!(heard(&mut near, 4).await.unwrap(), b"back");
            assert!(is_silent(&mut far).await);
        }
        network.heal();
        assert_eq!(rest(&mut near).await, (vec![], Some(ErrorKind::ConnectionReset)));
    }
}

#[tokio::test]
async fn a_connection_that_lost_nothing_goes_on_after_the_fault() {
    let network = network().await;
    let mut stream = connect(&network).await;
    assert_eq!(echo(&mut stream, b"one").await.unwrap(), b"one");
    network.set(Fault::Lose(Way::Back));
    network.heal();
    assert_eq!(echo(&mut stream, b"two").await.unwrap(), b"two");
}

#[tokio::test]
async fn a_connection_is_cut_after_so_many_bytes_of_one_way() {
    let network = network().await;
    network.set(Fault::CutAfter(Way::Back, 5));
    let mut stream = connect(&network).await;
    assert_eq!(echo(&mut stream, b"abc").await.unwrap(), b"abc");
    stream.write_all(b"defg").await.unwrap();
    assert_eq!(rest(&mut stream).await.0, b"de");
    // The next one has its own count.
    let mut stream = connect(&network).await;
    assert_eq!(echo(&mut stream, b"abcd").await.unwrap(), b"abcd");
}

#[tokio::test]
async fn silence_holds_what_was_sent_until_it_ends() {
    let network = network().await;
    let mut open = connect(&network).await;
    network.set(Fault::Silence);
    let mut late = connect(&network).await;
    open.write_all(b"one").await.unwrap();
    late.write_all(b"two").await.unwrap();
    assert!(is_silent(&mut open).await && is_silent(&mut late).await);
    network.heal();
    assert_eq!(heard(&mut open, 3).await.unwrap(), b"one");
    assert_eq!(heard(&mut late, 3).await.unwrap(), b"two");
}

#[tokio::test]
async fn a_reset_ends_what_is_open_and_what_comes() {
    let network = network().await;
    let mut open = connect(&network).await;
    assert_eq!(echo(&mut open, b"one").await.unwrap(), b"one");
    network.set(Fault::Reset);
    assert_eq!(rest(&mut open).await.1, Some(ErrorKind::ConnectionReset));
    let mut late = connect(&network).await;
    assert_eq!(rest(&mut late).await.1, Some(ErrorKind::ConnectionReset));
    network.heal();
    assert_eq!(echo(&mut connect(&network).await, b"two").await.unwrap(), b"two");
}

#[tokio::test]
async fn severing_ends_what_is_open_and_nothing_else() {
    let network = network().await;
    let mut open = connect(&network).await;
    assert_eq!(echo(&mut open, b"one").await.unwrap(), b"one");
    network.sever();
    let mut late = connect(&network).await;
    assert_eq!(rest(&mut open).await.1, Some(ErrorKind::ConnectionReset));
    assert_eq!(echo(&mut late, b"two").await.unwrap(), b"two");
}

#[tokio::test]
async fn a_network_that_refuses_closes_its_door_and_opens_it_where_it_was() {
    let network = network().await;
    let mut open = connect(&network).await;
    assert_eq!(echo(&mut open, b"one").await.unwrap(), b"one");
    network.set(Fault::Refuse);
    assert_eq!(rest(&mut open).await.0, b"");
    let refused = async || TcpStream::connect(network.address()).await.err();
    assert_eq!(eventually("a closed door", refused).await.kind(), ErrorKind::ConnectionRefused);
    network.heal();
    let again = async || TcpStream::connect(network.address()).await.ok();
    let mut stream = eventually("an open door", again).await;
    assert_eq!(echo(&mut stream, b"two").await.unwrap(), b"two");
}
