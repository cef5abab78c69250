//! Who is let in: the names by which the server may be called, the pages that may ask it, and the token.

use crate::address::Address;
use crate::token::Token;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use hyper::{StatusCode, Version};
use std::net::{IpAddr, SocketAddr};

/// Names of the machine itself, which no name server can lead elsewhere.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// Letters of a challenge's nonce: 32 bytes in hexadecimal.
const NONCE_LETTERS: usize = 64;
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The reason why a request is kept out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It asks for a server of another name, as a web page does whose name was led here.
    Host,
    /// A page of another server asks.
    Origin,
    /// Without the token, or with a wrong one.
    Token,
}

impl Refusal {
    pub fn status(self) -> StatusCode {
        match self {
            Self::Host | Self::Origin => StatusCode::FORBIDDEN,
            Self::Token => StatusCode::UNAUTHORIZED,
        }
    }

    /// Without anything of the request.
    pub fn text(self) -> &'static str {
        match self {
            Self::Host => {
                "the Host header names another server. Use localhost, 127.0.0.1 or [::1], or start \"ramson serve --allow-host NAME\""
            }
            Self::Origin => "the request comes from a page of another server",
            Self::Token => {
                "no token, or a wrong one. \"ramson serve\" prints it: send it as \"Authorization: Bearer TOKEN\", or as http://ramson:TOKEN@HOST:PORT/"
            }
        }
    }
}

/// The reason why a challenge is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unproven {
    /// The nonce has another form.
    Nonce,
    /// The server does not own the name and the port by which the client calls it.
    Name,
}

impl Unproven {
    pub fn status(self) -> StatusCode {
        match self {
            Self::Nonce => StatusCode::BAD_REQUEST,
            Self::Name => StatusCode::FORBIDDEN,
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Self::Nonce => "nonce: not 64 hexadecimal digits",
            Self::Name => {
                "this server does not listen at the name and port of the Host header. If you forward the port, start \"ramson serve --allow-host NAME\""
            }
        }
    }
}

/// Decides which requests are let in.
pub struct Guard {
    /// Names that are answered, in lower case.
    hosts: Vec<String>,
    /// Those that the user gave.
    allowed: Vec<String>,
    /// The port that this server has on every loopback address.
    localhost: Option<u16>,
    token: Token,
}

impl Guard {
    /// `localhost`: the port that this server has on every loopback address.
    pub fn new(
        address: &Address,
        localhost: Option<u16>,
        allowed: &[String],
        token: Token,
    ) -> Self {
        let own = match address {
            Address::Tcp(address) => Some(host_of_ip(address.ip())),
            Address::Localhost(_) | Address::Passed | Address::Unix(_) => None,
        };
        let local = LOCAL.iter().map(|name| (*name).to_owned());
        let allowed: Vec<String> = allowed.iter().map(|name| name.to_ascii_lowercase()).collect();
        let hosts = local.chain(own).chain(allowed.iter().cloned()).collect();
        Self { hosts, allowed, localhost, token }
    }

    /// Judges a request that came to the address `local`. A `public` path needs no token, and a link to it may be anywhere.
    pub fn check(
        &self,
        request: &Parts,
        local: Option<SocketAddr>,
        is_public: bool,
    ) -> Result<(), Refusal> {
        let headers = &request.headers;
        let named = only(headers, &HOST).map_err(|()| Refusal::Host)?;
        let origin = only(headers, &ORIGIN).map_err(|()| Refusal::Origin)?;
        let names = [named, request.uri.authority().map(|it| it.as_str())];
        if !names.iter().flatten().all(|name| self.is_own(name, local)) {
            return Err(Refusal::Host);
        }
        let is_old = request.version == Version::HTTP_10 && origin.is_none();
        if named.is_none() && !is_old {
            return Err(Refusal::Host);
        }
        if is_public {
            return Ok(());
        }
        if origin.is_some_and(|origin| !is_of(origin, named.unwrap_or_default())) {
            return Err(Refusal::Origin);
        }
        let site = only(headers, &FETCH_SITE).map_err(|()| Refusal::Origin)?;
        if site.is_some_and(|site| !["same-origin", "none"].contains(&site)) {
            return Err(Refusal::Origin);
        }
        match only(headers, &AUTHORIZATION) {
            Ok(Some(given)) if self.token.admits(given) => Ok(()),
            _ => Err(Refusal::Token),
        }
    }

    /// Proves to a client that was let in that this server has the token, for the name and port by which the client calls it.
    pub fn prove(
        &self,
        request: &Parts,
        nonce: &str,
        local: Option<SocketAddr>,
    ) -> Result<String, Unproven> {
        let is_nonce =
            nonce.len() == NONCE_LETTERS && nonce.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_nonce {
            return Err(Unproven::Nonce);
        }
        let host = only(&request.headers, &HOST).ok().flatten().unwrap_or_default();
        let is_owned = self.owns(&host.to_ascii_lowercase(), local);
        if is_owned { Ok(self.token.proof(nonce, host)) } else { Err(Unproven::Name) }
    }

    /// Whether `host` leads to this server only. An impostor at another port, or at the other loopback address, could pass
    /// the challenge on to this server, and the answer back to the client. None can do that through a Unix socket of this user.
    fn owns(&self, host: &str, local: Option<SocketAddr>) -> bool {
        let Some(name) = without_port(host) else { return false };
        let port = host[name.len()..].strip_prefix(':').unwrap_or("80").parse().ok();
        let is_here =
            |local: SocketAddr| host_of_ip(local.ip()) == name && port == Some(local.port());
        let is_localhost = LOCAL.contains(&name) && port.is_some() && port == self.localhost;
        is_localhost || self.allowed.iter().any(|it| it == name) || local.is_none_or(is_here)
    }

    /// Whether `host`, with or without a port, is this server. Numbers are safe: no name server leads them elsewhere.
    fn is_own(&self, host: &str, local: Option<SocketAddr>) -> bool {
        let Some(name) = without_port(host) else { return false };
        let name = name.to_ascii_lowercase();
        local.is_some_and(|local| host_of_ip(local.ip()) == name) || self.hosts.contains(&name)
    }
}

/// The value of a header; `Err`: there are several, or it is no text.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        _ => Err(()),
    }
}

fn host_of_ip(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// The name in `NAME` or `NAME:PORT`; a number of version 6 is in brackets.
fn without_port(host: &str) -> Option<&str> {
    let end = host.rfind(']').map_or(0, |at| at + 1);
    match host[end..].split_once(':') {
        None => Some(host),
        Some((rest, port)) => {
            let is_port = port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
            is_port.then(|| &host[..end + rest.len()])
        }
    }
}

/// Whether a page of `origin` is of the server that the request calls `host`.
fn is_of(origin: &str, host: &str) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    const TOKEN: &str = "0123456789abcdef";

    fn guard(address: &str, allowed: &[&str]) -> Guard {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        drop(Token::of_file(&path).unwrap());
        std::fs::write(&path, TOKEN).unwrap();
        let allowed: Vec<String> = allowed.iter().map(|name| name.to_string()).collect();
        let address = Address::parse(address).unwrap();
        let localhost = match address {
            Address::Localhost(port) => Some(port),
            _ => None,
        };
        Guard::new(&address, localhost, &allowed, Token::of_file(&path).unwrap())
    }

    fn head(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn verdict(guard: &Guard, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let bearer = format!("Bearer {TOKEN}");
        let with_token = [headers, &[("authorization", &bearer)]].concat();
        guard.check(&head("/api/v1/list", &with_token), None, false)
    }

    #[test]
    fn only_own_host_names_are_answered() {
        let guard = guard("192.168.3.4:7777", &["Profiles.Example"]);
        for good in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:7777",
            "[::1]",
            "[::1]:9",
            "192.168.3.4:7777",
            "profiles.example:443",
        ] {
            assert_eq!(verdict(&guard, &[("host", good)]), Ok(()), "{good}");
        }
        for bad in [
            "",
            "localhost.evil.example",
            "evil.example",
            "localhost:80.evil.example",
            "127.0.0.1.nip.io",
            "localhost.",
            "::1",
            "[::1",
            "127.0.0.2",
            "profiles.example.evil.example",
            "evil.example:127.0.0.1",
            "localhost@evil.example",
        ] {
            assert_eq!(verdict(&guard, &[("host", bad)]), Err(Refusal::Host), "{bad}");
        }
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(verdict(&guard, &two), Err(Refusal::Host));
        let absolute = head("http://evil.example/", &[("host", "localhost")]);
        assert_eq!(guard.check(&absolute, None, true), Err(Refusal::Host));
        let local = Some("10.1.2.3:80".parse().unwrap());
        assert_eq!(guard.check(&head("/", &[("host", "10.1.2.3:80")]), local, true), Ok(()));
    }

    #[test]
    fn old_clients_may_omit_host() {
        let guard = guard("127.0.0.1:7777", &[]);
        assert_eq!(verdict(&guard, &[]), Err(Refusal::Host));
        let mut old = head("/", &[]);
        old.version = Version::HTTP_10;
        assert_eq!(guard.check(&old, None, true), Ok(()));
        let mut of_page = head("/", &[("origin", "http://localhost")]);
        of_page.version = Version::HTTP_10;
        assert_eq!(guard.check(&of_page, None, true), Err(Refusal::Host));
    }

    #[test]
    fn foreign_pages_are_refused() {
        let guard = guard("127.0.0.1:7777", &[]);
        let of =
            |name: &'static str, value: &'static str| [("host", "localhost:7777"), (name, value)];
        assert_eq!(verdict(&guard, &of("origin", "http://localhost:7777")), Ok(()));
        for bad in ["http://localhost:8000", "http://evil.example", "null", "localhost:7777", ""] {
            let refused = verdict(&guard, &of("origin", bad));
            assert_eq!(refused, Err(Refusal::Origin), "{bad}");
        }
        for good in ["same-origin", "none"] {
            assert_eq!(verdict(&guard, &of("sec-fetch-site", good)), Ok(()), "{good}");
        }
        for bad in ["cross-site", "same-site", ""] {
            let refused = verdict(&guard, &of("sec-fetch-site", bad));
            assert_eq!(refused, Err(Refusal::Origin), "{bad}");
        }
        let link = head("/", &of("sec-fetch-site", "cross-site"));
        assert_eq!(guard.check(&link, None, true), Ok(()));
    }

    #[test]
    fn token_guards_all_but_public() {
        let guard = guard("127.0.0.1:7777", &[]);
        let bare = head("/", &[("host", "localhost")]);
        assert_eq!(guard.check(&bare, None, true), Ok(()));
        assert_eq!(guard.check(&bare, None, false), Err(Refusal::Token));
        let bearer = format!("Bearer {TOKEN}");
        let twice =
            [("host", "localhost"), ("authorization", &*bearer), ("authorization", "Bearer x")];
        assert_eq!(guard.check(&head("/", &twice), None, false), Err(Refusal::Token));
    }

    #[test]
    fn proof_is_for_own_ports() {
        let alone = guard("127.0.0.1:7777", &[]);
        let guard = guard("localhost:7777", &["profiles.example"]);
        let nonce = "0f".repeat(32);
        let v4 = Some(SocketAddr::from(([127, 0, 0, 1], 7777)));
        let asked = |host: &str, nonce: &str, local| {
            guard.prove(&head("/api/v1/challenge", &[("host", host)]), nonce, local)
        };
        for own in ["localhost:7777", "[::1]:7777", "LocalHost:7777", "profiles.example:1"] {
            assert_eq!(asked(own, &nonce, v4), Ok(guard.token.proof(&nonce, own)), "{own}");
        }
        for other in ["localhost:7778", "127.0.0.1:7", "[::1]", "localhost", "", "x:7777"] {
            assert_eq!(asked(other, &nonce, v4), Err(Unproven::Name), "{other}");
        }
        let of_alone = |host: &str| {
            alone.prove(&head("/api/v1/challenge", &[("host", host)]), &nonce, v4).is_ok()
        };
        assert!(of_alone("127.0.0.1:7777") && !of_alone("localhost:7777"));
        let port_80 = Some(SocketAddr::from(([10, 0, 0, 1], 80)));
        assert!(asked("10.0.0.1", &nonce, port_80).is_ok());
        assert!(asked("localhost:7", &nonce, None).is_ok());
        for wrong in ["", "0f", &"0g".repeat(32), &"0f".repeat(33)] {
            assert_eq!(asked("localhost:7777", wrong, v4), Err(Unproven::Nonce), "{wrong}");
        }
    }
}
