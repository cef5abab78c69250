//! A key-value server on a Unix socket: `SET KEY BYTES` and `GET KEY`, a line each. It keeps values of keys, and a journal of every request.
use std::collections::HashMap;
use std::env::args;
use std::io::{BufRead, BufReader, Result, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Default)]
struct Store {
    values: HashMap<String, Vec<u8>>,
    journal: Vec<String>,
}

impl Store {
    #[inline(never)]
    fn set(&mut self, key: &str, bytes: usize) -> String {
        self.values.insert(key.to_owned(), vec![1; bytes]);
        "OK".into()
    }

    #[inline(never)]
    fn get(&self, key: &str) -> String {
        self.values.get(key).map_or("none".into(), |value| value.len().to_string())
    }

    #[inline(never)]
    fn note(&mut self, request: &str) {
        self.journal.push(request.repeat(8));
    }

    fn answer(&mut self, request: &str) -> String {
        self.note(request);
        let mut words = request.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("SET"), Some(key), Some(bytes)) => self.set(key, bytes.parse().unwrap_or(0)),
            (Some("GET"), Some(key), None) => self.get(key),
            _ => "what?".into(),
        }
    }
}

fn serve(stream: UnixStream, store: &Mutex<Store>) -> Result<()> {
    let mut to = stream.try_clone()?;
    for request in BufReader::new(stream).lines() {
        let answer = store.lock().unwrap().answer(&request?);
        writeln!(to, "{answer}")?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let listener = UnixListener::bind(args().nth(1).expect("kv SOCKET"))?;
    let store = Arc::new(Mutex::new(Store::default()));
    println!("ready");
    for stream in listener.incoming() {
        let (stream, store) = (stream?, store.clone());
        thread::spawn(move || serve(stream, &store));
    }
    Ok(())
}
