//! A ClickHouse server over HTTP(S), which has a fleet's rows (deploy/clickhouse). As SRC, it is a profile of a service's live stacks:
//! `clickhouse://HOST[:PORT][/DATABASE]?service=NAME`, with `clickhouses` for TLS.

use crate::failure::Failure;
use crate::file::{Opened, open_stream};
use ramson_apart::NOBODY;
use ramson_history::{Span, When};
use ramson_import::InuseAt;
use ramson_process::clock::unix_ns;
use serde::Deserialize;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;
use ureq::http::uri::Authority;
use ureq::http::{Response, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

const MOST_TIME: Duration = Duration::from_secs(60);
/// Bytes of a text that are read.
const MOST_TEXT: u64 = 64 << 20;
const CODE: &str = "X-ClickHouse-Exception-Code";
const PLAIN: &str = "clickhouse://";
const WITH_TLS: &str = "clickhouses://";
const FORM: &str = "clickhouse://HOST/ramson?service=NAME";
const USER_VARIABLE: &str = "RAMSON_CLICKHOUSE_USER";
const PASSWORD_VARIABLE: &str = "RAMSON_CLICKHOUSE_PASSWORD_FILE";
const VARIABLES: &str = "RAMSON_CLICKHOUSE_USER and RAMSON_CLICKHOUSE_PASSWORD_FILE";
/// What may be chosen, as the parameters of the statement are called.
const CHOICES: [&str; 4] = ["service", "version", "host", "pid"];
const PROFILE: &str = include_str!("../../../deploy/clickhouse/questions/profile.sql");
const NS_PER_SECOND: u64 = 1_000_000_000;

/// How to reach a server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// `https://clickhouse.example.com:8443`.
    pub url: String,
    /// Database with the tables.
    #[serde(default = "usual_database")]
    pub database: String,
    /// Who asks.
    #[serde(default = "usual_user")]
    pub user: String,
    /// File with the password, which only its owner may read; none: an empty password.
    pub password_file: Option<PathBuf>,
}

fn usual_database() -> String {
    "ramson".into()
}

fn usual_user() -> String {
    "default".into()
}

impl Server {
    /// Fails with a line that names what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let Self { url, database, .. } = self;
        let address: Option<Uri> = url.parse().ok();
        let address = address.filter(|it| matches!(it.scheme_str(), Some("http" | "https")));
        let has_port = |it: &&Authority| it.port().is_some() || it.as_str().ends_with(it.host());
        let authority =
            address.as_ref().and_then(Uri::authority).filter(has_port).ok_or_else(|| {
                format!(
                    "url: {url}: not an http address. Example: https://clickhouse.example.com:8443"
                )
            })?;
        if authority.as_str().contains('@') {
            return Err("url: no password in the address. Use user and password_file".into());
        }
        let is_name =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if database.is_empty() || !is_name(database) {
            return Err(format!("database: {database}: not a name of letters, digits and _"));
        }
        self.password().map(drop)
    }

    /// Reads the password; it is never shown.
    fn password(&self) -> Result<String, String> {
        let Some(path) = &self.password_file else { return Ok(String::new()) };
        let place = path.display();
        let failed = |error| format!("{place}: {error}. Check password_file");
        // To open a FIFO would wait for its writer.
        if !path.metadata().map_err(failed)?.is_file() {
            return Err(format!("{place}: not a file. Check password_file"));
        }
        let mut file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.mode();
        if mode & 0o077 != 0 {
            return Err(format!(
                "{place}: others may read it (mode {:o}). Run: chmod 600 {place}",
                mode & 0o777
            ));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        Ok(text.trim_end_matches(['\r', '\n']).into())
    }
}

/// A server that can be asked.
pub struct ClickHouse {
    agent: Agent,
    server: Server,
    password: String,
    /// Where name and password come from.
    credentials: &'static str,
}

impl ClickHouse {
    /// Prepares for a server; nothing is sent yet.
    pub fn new(server: Server) -> Result<Self, String> {
        let password = server.password()?;
        let agent = Agent::config_builder()
            .timeout_global(Some(MOST_TIME))
            .http_status_as_error(false)
            // Another address gets neither the password nor the rows.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
            .user_agent(concat!("ramson/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        Ok(Self { agent, server, password, credentials: "user and password_file" })
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.server.url
    }

    /// Returns what a statement answers, as text.
    pub fn ask(&self, settings: &[(&str, &str)], statement: &str) -> Result<String, String> {
        let mut answer = self.post(settings, statement.as_bytes())?;
        let text = answer.body_mut().with_config().limit(MOST_TEXT).read_to_string();
        text.map_err(|error| format!("{}: {error}", self.server.url))
    }

    /// Sends a statement, or the data of one that is among the settings.
    pub fn post(&self, settings: &[(&str, &str)], body: &[u8]) -> Result<Response<Body>, String> {
        let url = &self.server.url;
        let settings = settings.iter().map(|&(name, value)| match name.starts_with("param_") {
            true => (name, escaped(value)),
            false => (name, value.to_owned()),
        });
        let request = self.agent.post(url).query_pairs(settings);
        let request = request
            .query("database", &self.server.database)
            // Else a statement that fails on its way has answered well already.
            .query("wait_end_of_query", "1")
            .header("X-ClickHouse-User", &self.server.user)
            .header("X-ClickHouse-Key", &self.password);
        let answer = request.send(body).map_err(|error| format!("{url}: {}", said(&error)))?;
        self.checked(answer).map_err(|reason| format!("{url}: {reason}"))
    }

    fn checked(&self, mut answer: Response<Body>) -> Result<Response<Body>, String> {
        let status = answer.status();
        let code =
            answer.headers().get(CODE).and_then(|code| code.to_str().ok()).map(str::to_owned);
        if status.is_success() && code.is_none() {
            return Ok(answer);
        }
        let mut text = Vec::new();
        // What it says is worth showing, but is not needed.
        let _ = answer.body_mut().as_reader().take(4096).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        let line: String = text.lines().next().unwrap_or_default().chars().take(300).collect();
        let line = line.escape_debug();
        let Server { user, database, .. } = &self.server;
        Err(match code.as_deref() {
            Some("516" | "192" | "194") => {
                format!(
                    "user {user}: the name or the password is wrong. Check {}",
                    self.credentials
                )
            }
            Some("81") => {
                format!("no database {database}. Check its name, or run schema.sql on the server")
            }
            Some("60") => {
                format!("database {database}: a table is missing. Run schema.sql on the server")
            }
            None if status.is_redirection() => {
                format!(
                    "HTTP {}: it leads elsewhere. Set url to the server itself",
                    status.as_u16()
                )
            }
            Some("497") => {
                format!("user {user}: a right is missing ({line}). Grant it on the server")
            }
            _ => format!("HTTP {}: {line}", status.as_u16()),
        })
    }
}

/// A parameter as ClickHouse reads it.
fn escaped(value: &str) -> String {
    let escape = |character| match character {
        '\\' => "\\\\".into(),
        '\n' => "\\n".into(),
        '\t' => "\\t".into(),
        '\r' => "\\r".into(),
        other => String::from(other),
    };
    value.chars().map(escape).collect()
}

/// Without the names of kinds and numbers of errors.
fn said(error: &ureq::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("io: ").unwrap_or(&text);
    let text = text.split(" (os error").next().unwrap_or(text);
    let is_of_tls = text.contains("certificate");
    let next = if is_of_tls { ". SSL_CERT_FILE may name a private authority" } else { "" };
    format!("{text}{next}")
}

/// Whether a SRC names a database.
pub fn is_database(source: &str) -> bool {
    source.starts_with(PLAIN) || source.starts_with(WITH_TLS)
}

/// What was live in a service at a moment; without one, at the last that the database has. `text` is address and moment, as they were typed.
pub fn open(text: &str, address: &str, span: Option<&Span>) -> Result<Opened, Failure> {
    let until_ns = match span {
        None => u64::MAX,
        Some(Span::Moment(When::Ago(ago_ns))) => unix_ns().saturating_sub(*ago_ns),
        Some(Span::Moment(When::At(time_ns))) => *time_ns,
        Some(_) => {
            return Err(Failure::usage(format!(
                "{address}: name one moment, as in @-1h or @2026-11-20T17:00. \"ramson diff A B\" compares two"
            )));
        }
    };
    let wrong = |finding: String| Failure::usage(format!("{address}: {finding}"));
    let (server, chosen) = parse(address).map_err(wrong)?;
    let until = (until_ns / NS_PER_SECOND).min(u32::MAX.into()).to_string();
    let value = |name| chosen.iter().find(|(it, _)| it == name).map_or("", |(_, value)| value);
    let choices = CHOICES.map(|name| (format!("param_{name}"), value(name)));
    let choices = choices.iter().map(|(name, value)| (&**name, *value));
    let settings: Vec<(&str, &str)> =
        choices.chain([("param_until", &*until), ("readonly", "2")]).collect();
    let server = ClickHouse::new(server).map_err(Failure::failed)?;
    let server = ClickHouse { credentials: VARIABLES, ..server };
    let answer = server.post(&settings, PROFILE.as_bytes()).map_err(Failure::failed)?;
    let opened = open_stream(text, answer.into_body().into_reader(), NOBODY, InuseAt::End)?;
    match &opened {
        Opened::Foreign(foreign) if foreign.imported.profile.samples.is_empty() => {
            Err(Failure::not_found(format!(
                "{address}: nothing was live. \"ramson fleet\" lists services, \"ramson fleet processes SERVICE\" hosts and pids"
            )))
        }
        _ => Ok(opened),
    }
}

/// The server, and what is chosen.
fn parse(address: &str) -> Result<(Server, Vec<(String, String)>), String> {
    let form = || format!("not a database. Pass {FORM}");
    let (scheme, port, rest) = match (address.strip_prefix(PLAIN), address.strip_prefix(WITH_TLS)) {
        (Some(rest), _) => ("http", 8123, rest),
        (_, Some(rest)) => ("https", 8443, rest),
        _ => return Err(form()),
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, database) = place.split_once('/').unwrap_or((place, ""));
    if host.contains('@') {
        return Err(format!("no password in the address. Set {VARIABLES}"));
    }
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    let url = match has_port {
        true => format!("{scheme}://{host}"),
        false => format!("{scheme}://{host}:{port}"),
    };
    let chosen: Vec<(String, String)> =
        form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    if let Some((name, _)) = chosen.iter().find(|(name, _)| !CHOICES.contains(&&**name)) {
        return Err(format!("{name}: not one of {}", CHOICES.join(", ")));
    }
    if !chosen.iter().any(|(name, service)| name == "service" && !service.is_empty()) {
        return Err(format!("of which service? Pass {FORM}; \"ramson fleet\" lists them"));
    }
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let server = Server {
        url,
        database: Some(database)
            .filter(|it| !it.is_empty())
            .map_or_else(usual_database, str::to_owned),
        user: variable(USER_VARIABLE).unwrap_or_else(usual_user),
        password_file: variable(PASSWORD_VARIABLE).map(PathBuf::from),
    };
    server.check()?;
    Ok((server, chosen))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn addresses_are_understood() {
        let (server, chosen) =
            parse("clickhouses://db.internal/heaps?service=a%26b.service&host=web-1").unwrap();
        assert_eq!((&*server.url, &*server.database), ("https://db.internal:8443", "heaps"));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(chosen, [pair("service", "a&b.service"), pair("host", "web-1")]);
        let (server, _) = parse("clickhouse://[::1]?service=a").unwrap();
        assert_eq!((&*server.url, &*server.database), ("http://[::1]:8123", "ramson"));
        for (wrong, part) in [
            ("clickhouse://db/ramson", "of which service?"),
            ("clickhouse://db/ramson?service=", "of which service?"),
            ("clickhouse://db/ramson?service=a&day=1", "day: not one of service"),
            ("clickhouse://u:p@db/ramson?service=a", "no password in the address"),
            ("clickhouse://db/a;b?service=a", "not a name of letters"),
            ("clickhouse://db:99999/ramson?service=a", "not an http address"),
        ] {
            let finding = parse(wrong).unwrap_err();
            assert!(finding.contains(part), "{finding}");
        }
    }

    #[test]
    fn password_is_not_read_from_a_file_of_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        fs::write(&path, "s3cret\n").unwrap();
        let set = |mode| fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let server = Server {
            url: "http://db".into(),
            database: "ramson".into(),
            user: "writer".into(),
            password_file: Some(path.clone()),
        };
        set(0o644);
        assert!(server.check().unwrap_err().contains("others may read it (mode 644)"));
        set(0o600);
        assert_eq!(server.password().unwrap(), "s3cret");
    }
}
