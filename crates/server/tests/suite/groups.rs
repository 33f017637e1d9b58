//! Writes of a turn, which are one batch.

use std::path::Path;
use std::sync::Arc;

use pumice::{MemFs, Options, Statistics, Ticker};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_port::fiber::Runtime;

use super::Quiet;

const CLIENTS: usize = 40;

fn options(fs: &Arc<MemFs>, statistics: &Arc<Statistics>) -> Options {
    let mut options = Options::default();
    options.db.file_system = fs.clone();
    options.db.statistics = Some(Arc::clone(statistics));
    options
}

/// What clients that ask at the same time on one loop are told, in their order.
fn ask_at_once(server: &Arc<Quiet>, runtime: &Runtime, line: fn(usize) -> String) -> Vec<String> {
    let ask = |number| {
        let server = Arc::clone(server);
        runtime.spawn("client", move || server.say(&mut server.client(), &line(number)))
    };
    let asked: Vec<_> = (0..CLIENTS).map(ask).collect();
    asked.into_iter().map(|client| client.join().unwrap()).collect()
}

#[test]
fn commands_of_a_turn_share_a_batch() {
    let (fs, statistics) = (Arc::new(MemFs::new(1)), Arc::new(Statistics::new()));
    let runtime = Runtime::builder().loops(1).build().unwrap();
    let server = Arc::new(Quiet::with(Path::new("/data"), options(&fs, &statistics)));
    let batches = || {
        let tickers = [Ticker::WriteDoneBySelf, Ticker::WriteDoneByOther];
        tickers.map(|ticker| statistics.ticker(ticker)).iter().sum::<u64>()
    };
    let before = batches();
    let replies = ask_at_once(&server, &runtime, |number| format!("SET k{number} v"));
    assert_eq!(replies, vec!["+OK"; CLIENTS]);
    assert!(batches() - before < CLIENTS as u64 / 2, "{} batches", batches() - before);
    // Those of one key come one after the other.
    let mut counts = ask_at_once(&server, &runtime, |_| "INCR n".to_string());
    counts.sort_by_key(|count| count[1..].parse::<u64>().unwrap());
    let all: Vec<_> = (1..=CLIENTS).map(|count| format!(":{count}")).collect();
    assert_eq!(counts, all);
    assert_eq!(server.say(&mut server.client(), "DBSIZE"), format!(":{}", CLIENTS + 1));
    server.shared.keyspace.close().unwrap();
}

#[test]
fn a_batch_that_fails_is_the_failure_of_all_in_it() {
    let (fs, statistics) = (Arc::new(MemFs::new(1)), Arc::new(Statistics::new()));
    let runtime = Runtime::builder().loops(1).build().unwrap();
    let server = Arc::new(Quiet::with(Path::new("/data"), options(&fs, &statistics)));
    fs.add_fault(FaultRule::always(FaultOp::Write, "*.log", Fault::Enospc));
    let replies = ask_at_once(&server, &runtime, |number| format!("SET k{number} v"));
    for reply in &replies {
        assert!(reply.starts_with("-MISCONF ") && reply.contains("No space left"), "{reply}");
    }
    // Nothing of it is there, nobody was counted, and no key is locked.
    let client = &mut server.client();
    for number in 0..CLIENTS {
        assert_eq!(server.say(client, &format!("GET k{number}")), "$-1");
    }
    assert_eq!(server.say(client, "DBSIZE"), ":0");
    let held = server.shared.keyspace.locks.all();
    drop(held);
    server.shared.keyspace.engine().close().ok();
}

#[test]
fn watchers_learn_of_what_others_write_for_a_client() {
    let (fs, statistics) = (Arc::new(MemFs::new(1)), Arc::new(Statistics::new()));
    let runtime = Runtime::builder().loops(1).build().unwrap();
    let server = Arc::new(Quiet::with(Path::new("/data"), options(&fs, &statistics)));
    let watcher = &mut server.client();
    server.talk(watcher, &[("WATCH k7", "+OK"), ("MULTI", "+OK"), ("SET x 1", "+QUEUED")]);
    ask_at_once(&server, &runtime, |number| format!("SET k{number} v"));
    server.talk(watcher, &[("EXEC", "*-1"), ("GET x", "$-1")]);
    server.shared.keyspace.close().unwrap();
}
