//! The server: clients against throughput and p99.
//!
//! Pure. Closed loop, no pipelining, values of 100 bytes; server and client have a processor each
//! where there are two.

use super::{Arm, Column, Engine, Plot, Row, Scale, Section, Serve, Table, Work, column};

const RATE: Column = column("ops_per_sec", "requests/s", 1.0, 0);
const P99: Column = column("p99_us", "p99 ms", 1000.0, 2);
const EACH: Column = column("cpu_us_per_op", "server's CPU us/request", 1.0, 1);

pub(super) fn tables(scale: &Scale) -> Vec<Table> {
    let mut table = Table::new(Section::Server, "load", "Requests by clients");
    table.note = "Clients in a closed loop without pipelining, values of 100 bytes, appendfsync \
                  everysec, data in memory."
        .to_string();
    for test in ["set", "get"] {
        for clients in [1, 10, 100, 1000] {
            table.rows.push(row(scale, test, clients));
        }
    }
    table.columns = vec![RATE, column("p50_us", "p50 ms", 1000.0, 2), P99, EACH];
    table.ratios = vec![RATE, P99, EACH];
    table.plots = ["SET", "GET"]
        .map(|test| Plot {
            title: format!("{test} by clients"),
            rows: format!("{test},"),
            panels: vec![RATE, P99],
            x_title: "clients",
            log_x: true,
            log_y: true,
        })
        .into();
    table.seconds = 58.0;
    vec![table]
}

fn row(scale: &Scale, test: &'static str, clients: u64) -> Row {
    let work = |engine, flags: &str| {
        Work::Serve(Serve {
            engine,
            flags: flags.split_whitespace().map(str::to_string).collect(),
            test,
            clients,
            keys: scale.count(50_000),
            seconds: (1.5 * scale.size).clamp(0.1, 5.0),
        })
    };
    let threads = "--runtime threads --workers 16";
    let redis = "redis-server";
    let mut arms = vec![
        Arm::named(redis, None, work(Engine::Redis, "")),
        Arm::named("Pumice", Some(redis), work(Engine::Pumice, "")),
    ];
    if scale.long {
        arms.push(Arm::named("Pumice, threads", Some(redis), work(Engine::Pumice, threads)));
    }
    let name =
        format!("{}, {clients} client{}", test.to_uppercase(), if clients == 1 { "" } else { "s" });
    Row { name, x: clients as f64, arms }
}
