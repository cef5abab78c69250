//! Profiles from a pprof endpoint, as Go's net/http/pprof has it.

use crate::failure::Failure;
use std::io::{ErrorKind, Read};
use std::time::Duration;

/// How long a server may think, as `go tool pprof` allows it: a minute, and half as long again as it was told to wait.
const PATIENCE: Duration = Duration::from_secs(60);
const MOST_REDIRECTS: u32 = 5;

/// Whether a SRC is an address rather than a file.
pub fn is_address(source: &str) -> bool {
    source.starts_with("http://") || source.starts_with("https://")
}

/// The address without the name and password in it.
pub fn shown(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("//") else { return address.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let start = rest[..end].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}//{}", &rest[start..])
}

/// Asks for a profile; what the server answers is to be read.
pub fn fetch(address: &str) -> Result<impl Read, Failure> {
    let called = address;
    let address = &shown(address);
    let seconds = seconds(address);
    let config = ureq::Agent::config_builder()
        .timeout_connect(Some(Duration::from_secs(10)))
        .timeout_global(Some(PATIENCE + seconds.mul_f64(1.5)))
        .max_redirects(MOST_REDIRECTS)
        .http_status_as_error(false)
        .proxy(None)
        .user_agent(concat!("ramson/", env!("CARGO_PKG_VERSION")));
    let response = config.build().new_agent().get(called).call();
    let mut response = response.map_err(|error| unreachable(address, &error))?;
    if response.status() != 200 {
        let status = response.status();
        let mut body = Vec::new();
        // The server's message is worth showing, but is not needed.
        let _ = response.body_mut().as_reader().take(200).read_to_end(&mut body);
        let body = String::from_utf8_lossy(&body);
        let line = body.lines().next().unwrap_or_default().trim().escape_debug().to_string();
        let said = if line.is_empty() { String::new() } else { format!(": {line}") };
        return Err(Failure::failed(format!(
            "{address}: the server answered {status}{said}. {NEXT}"
        )));
    }
    let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with("text/html")) {
        return Err(Failure::failed(format!("{address}: a web page, not a profile. {NEXT}")));
    }
    Ok(response.into_body().into_reader())
}

const NEXT: &str = "Pass a heap profile's address, such as http://HOST:PORT/debug/pprof/heap";

fn unreachable(address: &str, error: &ureq::Error) -> Failure {
    let finding = match error {
        ureq::Error::Timeout(_) => "the server did not answer in time".to_owned(),
        ureq::Error::HostNotFound => "there is no such host".to_owned(),
        other => other.to_string(),
    };
    // The other side does not speak TLS, or its certificate is not to be trusted: ramson knows the public authorities only.
    let is_untrusted = match error {
        ureq::Error::Io(cause) => cause.kind() == ErrorKind::InvalidData,
        other => matches!(other, ureq::Error::Rustls(_)),
    };
    if is_untrusted {
        Failure::failed(format!(
            "{address}: https failed ({error}). If the certificate is private, fetch the profile with curl: curl -fsS '{address}' | ramson report -"
        ))
    } else {
        Failure::not_found(format!(
            "{address}: {finding}. Check the address and that the server runs"
        ))
    }
}

/// The `seconds` that a delta profile takes.
fn seconds(address: &str) -> Duration {
    const MOST_SECONDS: u64 = 86_400;
    let query = address.split_once('?').map_or("", |(_, query)| query);
    let seconds = query.split('&').find_map(|pair| pair.strip_prefix("seconds=")?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0).min(MOST_SECONDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(shown("http://ramson:t@k@host:1/p/7?x=@#@"), "http://host:1/p/7?x=@#@");
        assert_eq!(shown("https://host?a@b"), "https://host?a@b");
    }

    #[test]
    fn delta_profile_gets_its_time() {
        assert_eq!(seconds("http://h/debug/pprof/heap?gc=1&seconds=30"), Duration::from_secs(30));
        assert_eq!(seconds("http://h/debug/pprof/heap?seconds=x"), Duration::ZERO);
        assert_eq!(seconds("http://h/debug/pprof/heap"), Duration::ZERO);
    }
}
