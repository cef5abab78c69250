//! The flags of `ramson serve`.

use super::source::NameFlags;
use clap::Args;
use ramson_serve::Address;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Prints one address with a token, and serves until Ctrl-C. The token gives access to everything that this user can read about the processes, including their command lines; without it, the server answers only with the empty page, /healthz and /api/v1/challenge (proof that it has the token).

Profiles: /debug/pprof/ as in Go programs (heap, allocs, cmdline, symbol; ?seconds=N, ?debug=1, ?memory=1) if there is one SRC, and /p/PID/debug/pprof/ for each of several.

JSON: /api/v1/sources lists what is served. /api/v1/list and, below /api/v1/p/PID/, report, leaks, explain and timeline are what --json prints, with flags as parameters (?view=functions&rows=5). Further paths are moments (what this server has seen), events (the same as a stream) and source?file=FILE. docs/reference/formats.md lists them all.

Authentication: \"Authorization: Bearer TOKEN\", or the user ramson with the token as password.

Examples:
  ramson serve redis-server
  go tool pprof http://ramson:TOKEN@127.0.0.1:7777/debug/pprof/heap
  go tool pprof 'http://ramson:TOKEN@127.0.0.1:7777/p/4711/debug/pprof/heap?seconds=30'
  curl -H \"Authorization: Bearer TOKEN\" 127.0.0.1:7777/api/v1/p/4711/leaks
  ramson serve --listen unix:/run/user/1000/ramson.sock --token-file ~/.config/ramson-token")]
pub struct ServeFlags {
    /// Sources to serve: any SRC of "ramson report", except -; a group as its sum and process by process. Default: all processes of this user (for root, of all users), running and dead
    #[arg(value_name = "SRC")]
    pub sources: Vec<String>,
    /// Address to listen on: localhost:PORT (on 127.0.0.1 and ::1), ADDR:PORT (there only), unix:PATH, or systemd for the sockets of a socket unit. Port 0: any that is free
    #[arg(long, value_name = "ADDR:PORT|unix:PATH|systemd", default_value = "localhost:7777", value_parser = Address::parse)]
    pub listen: Address,
    /// Another name by which clients may call this server, besides localhost and the listening address (repeatable)
    #[arg(long, value_name = "NAME", value_parser = parse_host)]
    pub allow_host: Vec<String>,
    /// File that keeps the token, readable by this user only; created if it is missing. Default: a new token at each start
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Show source files beneath DIR that a profile's debug information names (repeatable)
    #[arg(long, value_name = "DIR")]
    pub source_root: Vec<PathBuf>,
    /// Let clients with the token trim processes. Default: clients can change nothing
    #[arg(long)]
    pub allow_actions: bool,
    /// Open the page in a browser: $BROWSER, else xdg-open
    #[arg(long)]
    pub open: bool,
    #[command(flatten)]
    pub names: NameFlags,
}

fn parse_host(text: &str) -> Result<String, String> {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte);
    let has_port = !text.ends_with(']') && text.contains(':');
    if !text.is_empty() && text.bytes().all(is_of_name) && !has_port {
        Ok(text.to_owned())
    } else {
        Err("a name without a port, as in profiles.example".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_a_bare_name() {
        for good in ["profiles.example", "10.0.0.1", "[fe80::1]"] {
            assert_eq!(parse_host(good).as_deref(), Ok(good));
        }
        for wrong in ["", "http://a", "a:80", "a/b", "*", "a b", "fe80::1"] {
            assert!(parse_host(wrong).is_err(), "{wrong}");
        }
    }
}
