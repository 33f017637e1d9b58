//! `pumice resp_bench`: loads a server that speaks Redis's protocol and measures its speed.
//!
//! Flags and tests are redis-benchmark's. What that one lacks: an open loop (`--rate`), a duration,
//! the processor time that client and server took, MGET, and keys that are filled in order.
//!
//! | file | what |
//! |---|---|
//! | `flags` | the command line |
//! | `requests` | the requests |
//! | `replies` | where a reply ends |
//! | `load` | connections |
//! | `latencies` | the histogram |
//!
//! Thread safety: everything begins and ends on the calling thread.

mod flags;
mod latencies;
mod load;
mod replies;
mod requests;

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use pumice_port::fiber::Runtime;
use pumice_port::{os, time};

pub use flags::all as flags;

use flags::Flags;
use load::{Load, Tally};
use requests::Request;

pub const USAGE: &str = "\
pumice resp_bench: loads a server that speaks Redis's protocol

USAGE: pumice resp_bench [FLAGS] [COMMAND ARGS...]

  -h HOST  -p PORT  -s SOCKET  -a PASSWORD    [127.0.0.1, 6379]
  -c N        connections [50]
  -n N        requests of each test [100000, or as many as --duration allows]
  -P N        requests that are sent together [1]
  -d BYTES    length of a value [3], which is all 'x'
  --random-data     bytes of values are drawn for each request, so that nothing compresses them
  -r N        keys are drawn from this many; without, there is one
  -t TESTS    fill (each key of -r once), ping, set, get, incr, lpush, rpush, lpop, rpop, sadd,
              hset, spop, zadd, zpopmin, mset, mget (both of ten keys) [set,get]
  --rate N          requests a second that arrive at connections by chance, whether or not the
                    server keeps up; latencies count from the arrival. Without: a connection's next
                    request follows the reply to its last
  --duration S      seconds of each test
  --threads N       event loops [1]
  --server-pid N    tells what processor time the server took, too
  --seed N          of everything that is drawn [1]
  --csv             a line of numbers for each test

A command is sent instead of tests; __rand_int__ in it becomes a number below -r.
";

const CSV_HEAD: &str = "test,clients,pipeline,value_bytes,offered,requests,requests_per_second,\
mean_ms,p50_ms,p99_ms,p999_ms,max_ms,errors,unsent,client_late_p99_ms,client_cpu_seconds,\
client_cpu_us_per_request,server_cpu_seconds,server_cpu_us_per_request";
/// Ticks in a second of /proc/PID/stat, on every Linux.
const TICKS: f64 = 100.0;
/// A connection needs little.
const STACK_BYTES: usize = 64 << 10;

/// Runs the subcommand with the words after its name.
pub fn run(args: &[OsString]) -> ExitCode {
    if args.iter().any(|arg| arg == "--help") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match Flags::parse(args).and_then(|flags| bench(&flags)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pumice resp_bench: {why}");
            ExitCode::FAILURE
        }
    }
}

fn bench(flags: &Flags) -> Result<(), String> {
    let runtime = Runtime::builder().loops(flags.threads).stack_bytes(STACK_BYTES);
    let runtime = runtime.name("pumice:bench").build();
    let runtime = runtime.map_err(|error| format!("event loops: {error}"))?;
    if flags.csv {
        println!("{CSV_HEAD}");
    }
    if !flags.command.is_empty() {
        let name = flags.command.join(&b' ');
        let name = String::from_utf8_lossy(&name);
        return measure(flags, &runtime, &name, Request::of(&flags.command));
    }
    for test in &flags.tests {
        let request = Request::of_test(test, flags.value_bytes)?;
        let request = match flags.random_data {
            true => request.with_random_data(flags.value_bytes),
            false => request,
        };
        measure(flags, &runtime, test, request)?;
    }
    Ok(())
}

/// Processor time that a process has taken so far, in seconds.
fn cpu_seconds(pid: u32) -> Result<f64, String> {
    let path = format!("/proc/{pid}/stat");
    let bytes = os::read_file(Path::new(&path)).map_err(|error| format!("{path}: {error}"))?;
    let text = String::from_utf8_lossy(&bytes);
    // The name before may have blanks in it; it ends with the last parenthesis.
    let after = text.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks: Vec<f64> = after.split_whitespace().skip(11).map_while(|w| w.parse().ok()).collect();
    match ticks.as_slice() {
        [user, system, ..] => Ok((user + system) / TICKS),
        _ => Err(format!("{path}: no processor time in it")),
    }
}

/// A test that has been run.
struct Measured<'f> {
    flags: &'f Flags,
    name: &'f str,
    tally: Tally,
    seconds: f64,
    client_cpu: f64,
    server_cpu: Option<f64>,
}

fn measure(flags: &Flags, runtime: &Runtime, name: &str, request: Request) -> Result<(), String> {
    let is_fill = name == "fill" && flags.command.is_empty();
    let load = Load {
        place: flags.place.clone(),
        password: flags.password.clone(),
        clients: flags.clients,
        pipeline: flags.pipeline,
        request,
        keys: flags.keys,
        is_fill,
        requests: if is_fill { Some(flags.keys.max(1)) } else { flags.requests },
        seconds: flags.seconds.filter(|_| !is_fill),
        rate: flags.rate.filter(|_| !is_fill),
        seed: flags.seed,
    };
    let server_cpu = || flags.server_pid.map(cpu_seconds).transpose();
    let own_cpu = || time::process_cpu_micros() as f64 / 1e6;
    let mut before = (0, 0.0, Ok(None));
    let tally = load::run(load, runtime, || before = (time::now_nanos(), own_cpu(), server_cpu()))?;
    let seconds = (time::now_nanos() - before.0) as f64 / 1e9;
    let client_cpu = own_cpu() - before.1;
    let server_cpu = server_cpu()?.zip(before.2?).map(|(after, before)| after - before);
    let measured = Measured { flags, name, tally, seconds, client_cpu, server_cpu };
    let text = if flags.csv { measured.line() } else { measured.page() };
    println!("{}", text.map_err(|error| error.to_string())?);
    Ok(())
}

impl Measured<'_> {
    fn requests(&self) -> u64 {
        self.tally.latencies.count
    }

    /// Mean, p50, p99, p99.9 and maximum, in milliseconds.
    fn millis(&self) -> [f64; 5] {
        let all = &self.tally.latencies;
        let [p50, p99, p999] = [50.0, 99.0, 99.9].map(|percent| all.percentile(percent) as f64);
        [all.mean(), p50, p99, p999, all.max as f64].map(|nanos| nanos / 1e6)
    }

    fn micros_each(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.requests().max(1) as f64
    }

    fn page(&self) -> Result<String, std::fmt::Error> {
        let (flags, tally) = (self.flags, &self.tally);
        let mut text = format!("====== {} ======\n", self.name.to_ascii_uppercase());
        let arrivals = match flags.rate {
            Some(rate) => format!("{rate} requests a second arrive"),
            None => "closed loop".to_string(),
        };
        writeln!(
            text,
            "  {} connections, {} requests together, values of {} bytes, {} threads, {arrivals}",
            flags.clients, flags.pipeline, flags.value_bytes, flags.threads
        )?;
        let (requests, seconds) = (self.requests(), self.seconds);
        let rate = requests as f64 / seconds;
        writeln!(text, "  {requests} requests in {seconds:.2} s: {rate:.0} requests per second")?;
        if let Some(first) = &tally.first_error {
            writeln!(text, "  {} error replies, the first: {first}", tally.errors)?;
        }
        if tally.unsent > 0 {
            writeln!(text, "  {} requests were never sent: it did not keep up", tally.unsent)?;
        }
        let [mean, p50, p99, p999, most] = self.millis();
        writeln!(
            text,
            "  latency in ms: mean {mean:.3}, p50 {p50:.3}, p99 {p99:.3}, p99.9 {p999:.3}, max \
             {most:.3}"
        )?;
        if flags.rate.is_some() {
            let late = tally.lateness.percentile(99.0) as f64 / 1e6;
            writeln!(text, "  the client itself was up to {late:.3} ms late (p99)")?;
        }
        let each = self.micros_each(self.client_cpu);
        writeln!(text, "  client: {:.2} s of CPU, {each:.2} us a request", self.client_cpu)?;
        if let Some(cpu) = self.server_cpu {
            writeln!(
                text,
                "  server: {cpu:.2} s of CPU, {:.2} us a request",
                self.micros_each(cpu)
            )?;
        }
        Ok(text)
    }

    fn line(&self) -> Result<String, std::fmt::Error> {
        let (flags, tally) = (self.flags, &self.tally);
        let mut text = format!("\"{}\"", self.name.replace('"', "'"));
        let offered = flags.rate.map_or(String::new(), |rate| rate.to_string());
        write!(text, ",{},{},{},{offered}", flags.clients, flags.pipeline, flags.value_bytes)?;
        write!(text, ",{},{:.1}", self.requests(), self.requests() as f64 / self.seconds)?;
        self.millis().iter().try_for_each(|millis| write!(text, ",{millis:.4}"))?;
        let late = tally.lateness.percentile(99.0) as f64 / 1e6;
        write!(text, ",{},{},{late:.4}", tally.errors, tally.unsent)?;
        write!(text, ",{:.3},{:.3}", self.client_cpu, self.micros_each(self.client_cpu))?;
        match self.server_cpu {
            Some(cpu) => write!(text, ",{cpu:.3},{:.3}", self.micros_each(cpu))?,
            None => text.push_str(",,"),
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
