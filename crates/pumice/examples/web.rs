//! A web handler in async code: calls of the database are futures, which any executor polls. The
//! executor and the HTTP here are the smallest that do; a server has its own.
//!
//! `cargo run --release -p pumice --example web [DIRECTORY]`
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // A program on plain threads.

use std::error::Error;
use std::future::Future;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use pumice::Db;

/// What a handler answers: status and body.
type Response = (u16, Vec<u8>);

/// `GET /key` and `PUT /key`.
async fn handle(db: &Db, method: &str, path: &str, body: Vec<u8>) -> pumice::Result<Response> {
    let key = path.trim_start_matches('/');
    match method {
        "GET" => Ok(match db.get_async(key).await? {
            Some(value) => (200, value.into_vec()),
            None => (404, b"no such key".to_vec()),
        }),
        "PUT" => {
            db.put_async(key, body).await?;
            Ok((201, Vec::new()))
        }
        _ => Ok((405, Vec::new())),
    }
}

fn serve(db: &Db, mut stream: TcpStream) -> Result<(), Box<dyn Error>> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut words = request.split_whitespace();
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or("/"));
    let mut length = 0;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let answer = block_on(handle(db, method, path, body));
    let (status, body) = answer.unwrap_or_else(|e| (500, e.to_string().into_bytes()));
    write!(stream, "HTTP/1.1 {status} -\r\nContent-Length: {}\r\n\r\n", body.len())?;
    Ok(stream.write_all(&body)?)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/pumice-web".into());
    let db = Db::builder(directory).create(true).open()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let requests = [
        "PUT /greeting HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        "GET /greeting HTTP/1.1\r\n\r\n",
        "GET /nothing HTTP/1.1\r\n\r\n",
    ];
    let server = {
        let db = db.clone();
        thread::spawn(move || {
            for stream in listener.incoming().take(requests.len()) {
                let served = stream.map_err(Into::into).and_then(|stream| serve(&db, stream));
                served.unwrap_or_else(|error| eprintln!("{error}"));
            }
        })
    };
    for request in requests {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let status = answer.split(' ').nth(1).unwrap_or("");
        println!("{status} {}", answer.split("\r\n\r\n").nth(1).unwrap_or(""));
    }
    server.join().map_err(|_| "the server panicked")?;
    Ok(db.close()?)
}
