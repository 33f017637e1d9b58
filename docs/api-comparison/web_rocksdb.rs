//! A web handler in async code, with rust-rocksdb. Its calls block: `blocking::unblock` runs each
//! on a thread of a pool.

use std::error::Error;
use std::future::Future;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use blocking::unblock;
use rocksdb::{DB, Options};

type Response = (u16, Vec<u8>);

async fn handle(
    db: &Arc<DB>,
    method: &str,
    path: &str,
    body: Vec<u8>,
) -> Result<Response, rocksdb::Error> {
    let key = path.trim_start_matches('/').to_owned();
    let db = Arc::clone(db);
    match method {
        "GET" => Ok(match unblock(move || db.get(key)).await? {
            Some(value) => (200, value),
            None => (404, b"no such key".to_vec()),
        }),
        "PUT" => {
            unblock(move || db.put(key, body)).await?;
            Ok((201, Vec::new()))
        }
        _ => Ok((405, Vec::new())),
    }
}

fn serve(db: &Arc<DB>, mut stream: TcpStream) -> Result<(), Box<dyn Error>> {
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
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/rocksdb-web".into());
    let mut options = Options::default();
    options.create_if_missing(true);
    let db = Arc::new(DB::open(&options, directory)?);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let requests = [
        "PUT /greeting HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        "GET /greeting HTTP/1.1\r\n\r\n",
        "GET /nothing HTTP/1.1\r\n\r\n",
    ];
    let server = {
        let db = Arc::clone(&db);
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
    Ok(())
}
