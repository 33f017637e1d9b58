//! The connection alone: close, truncation, changed bytes, concurrent tasks.

use std::io::ErrorKind;
use std::sync::Arc;

use pumice_port::net::{Direction, Stream};
use pumice_port::{thread, time};
use pumice_server::serve::link::{Cover, Link};
use pumice_server::serve::tls::Settings;
use rustls::version::TLS13;

use super::super::Scratch;
use super::{PATIENCE_NANOS, Papers, TlsCaller};

/// A server's end and its client after the handshake.
fn pair(papers: &Papers) -> (Arc<Link>, TlsCaller) {
    let (ours, theirs) = Stream::pair().unwrap();
    ours.set_receive_timeout(Some(PATIENCE_NANOS));
    let cover = Cover::Tls(Settings::new(papers.of_server("no")));
    let link = Arc::new(cover.over(ours).unwrap());
    let mut caller = TlsCaller::over(theirs, &papers.of_client("ca", None, &[&TLS13]));
    thread::scope(|scope| {
        scope.spawn(|| {
            let socket = &mut caller.tls.sock;
            while caller.tls.conn.is_handshaking() {
                caller.tls.conn.complete_io(socket).unwrap();
            }
        });
        link.begin(time::now_nanos() + PATIENCE_NANOS).unwrap();
    });
    (link, caller)
}

/// Receives until something else comes than bytes.
fn receive_all(link: &Link) -> (Vec<u8>, Result<(), ErrorKind>) {
    let (mut bytes, mut buf) = (Vec::new(), vec![0; 1000]);
    loop {
        match link.receive(&mut buf) {
            Ok(0) => return (bytes, Ok(())),
            Ok(n) => bytes.extend_from_slice(&buf[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return (bytes, Err(error.kind())),
        }
    }
}

#[pumice_test_macros::test]
fn an_end_is_said_and_a_cut_is_an_error() {
    let scratch = Scratch::new("tls-cut");
    let papers = Papers::make(scratch.path());
    let (link, mut caller) = pair(&papers);
    caller.send(b"all");
    caller.tls.conn.send_close_notify();
    caller.send(b"");
    assert_eq!(receive_all(&link), (b"all".to_vec(), Ok(())));
    // After its close notification it does not count as cut off.
    drop(caller);
    assert_eq!(receive_all(&link).1, Ok(()));

    let (link, mut caller) = pair(&papers);
    caller.send(b"part");
    caller.tls.sock.stream.shutdown(Direction::Send).unwrap();
    assert_eq!(receive_all(&link), (b"part".to_vec(), Err(ErrorKind::UnexpectedEof)));

    // Cut off within a record.
    let (link, caller) = pair(&papers);
    caller.tls.sock.stream.send_all(&[23, 3, 3, 0, 100, 1, 2]).unwrap();
    caller.tls.sock.stream.shutdown(Direction::Send).unwrap();
    assert!(!link.has_part());
    assert_eq!(receive_all(&link), (Vec::new(), Err(ErrorKind::UnexpectedEof)));
    assert!(link.has_part());

    // We announce our close as well.
    let (link, mut caller) = pair(&papers);
    link.send_all(b"bye").unwrap();
    link.end();
    assert_eq!(caller.until_closed().unwrap(), "bye");
}

#[pumice_test_macros::test]
fn new_keys_are_no_part_of_a_request() {
    let scratch = Scratch::new("tls-keys");
    let papers = Papers::make(scratch.path());
    let (link, mut caller) = pair(&papers);
    for round in 0..3 {
        caller.tls.conn.refresh_traffic_keys().unwrap();
        caller.tls.conn.write_tls(&mut caller.tls.sock).unwrap();
        let mut buf = [0; 100];
        // The records come whole.
        while !matches!(link.receive(&mut buf), Err(error) if error.kind() == ErrorKind::WouldBlock)
        {
        }
        assert!(!link.has_part());
        // Both sides go on with them.
        caller.send(b"ask");
        let mut all = Vec::new();
        while all.len() < 3 {
            let n = link.receive(&mut buf).unwrap();
            all.extend_from_slice(&buf[..n]);
        }
        assert_eq!(all, b"ask");
        link.send_all(format!("reply {round}\n").as_bytes()).unwrap();
        assert_eq!(caller.until(b"\n"), format!("reply {round}\n").as_bytes());
    }
}

#[pumice_test_macros::test]
fn what_was_changed_on_its_way_is_an_error() {
    let scratch = Scratch::new("tls-changed");
    let papers = Papers::make(scratch.path());
    let (link, mut caller) = pair(&papers);
    let mut record = vec![23, 3, 3, 0, 40];
    record.resize(45, 7);
    caller.tls.sock.stream.send_all(&record).unwrap();
    assert_eq!(receive_all(&link), (Vec::new(), Err(ErrorKind::InvalidData)));
    link.end();
    let why = caller.until_closed().unwrap_err().to_string();
    assert!(why.contains("fatal alert: BadRecordMac"), "{why}");
}

#[pumice_test_macros::test]
fn tasks_send_and_receive_at_once() {
    const LEN: usize = 3 << 20;
    const LINES: usize = 2000;
    let scratch = Scratch::new("tls-tasks");
    let papers = Papers::make(scratch.path());
    let (link, mut caller) = pair(&papers);
    let line = |task: usize, i: usize| format!("{task}:{i}:{}\n", "x".repeat(i % 3000));
    thread::scope(|scope| {
        // Two tasks send, one receives; the client sends everything before it reads, so that
        // senders wait once the socket buffers are full.
        for task in 0..2 {
            let link = &link;
            scope.spawn(move || {
                for i in 0..LINES {
                    link.send_all(line(task, i).as_bytes()).unwrap();
                }
            });
        }
        scope.spawn(|| {
            let (mut left, mut buf) = (LEN, vec![0; 70_000]);
            while left > 0 {
                match link.receive(&mut buf) {
                    Ok(n) => left -= n,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
        });
        scope.spawn(|| {
            caller.send(&vec![b'c'; LEN]);
            let mut next = [0; 2];
            let wanted: usize = (0..LINES).map(|i| line(0, i).len() + line(1, i).len()).sum();
            let mut all = Vec::new();
            while all.len() < wanted {
                all.extend(caller.until(b"\n"));
            }
            for text in String::from_utf8(all).unwrap().split_inclusive('\n') {
                let task = usize::from(text.starts_with('1'));
                assert_eq!(text, line(task, next[task]));
                next[task] += 1;
            }
            assert_eq!(next, [LINES; 2]);
        });
    });
}

#[pumice_test_macros::test]
fn after_a_send_that_failed_nothing_is_sent() {
    let scratch = Scratch::new("tls-failed");
    let papers = Papers::make(scratch.path());
    let (link, caller) = pair(&papers);
    link.socket().set_send_timeout(Some(1_000_000));
    let failed = link.send_all(&vec![b'x'; 16 << 20]).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::TimedOut);
    assert_eq!(link.send_all(b"more").unwrap_err().kind(), ErrorKind::BrokenPipe);
    link.end();
    // The last record is incomplete: the client cannot mistake it for the end.
    let mut caller = caller;
    assert_eq!(caller.until_closed().unwrap_err().kind(), ErrorKind::UnexpectedEof);
}
