//! ClickHouse over HTTP(S): batches are inserted in RowBinary, each with a token by which the server knows one that comes again.

use crate::config::Server;
use crate::layout::{SCHEMA_VERSION, Table};
use crate::queue::Batch;
use std::time::Duration;
use ureq::Agent;
use ureq::http::Response;

const MOST_TIME: Duration = Duration::from_secs(60);
/// Bytes of an answer that are read.
const MOST_ANSWER: u64 = 64 << 20;
const CODE: &str = "X-ClickHouse-Exception-Code";

/// A connection to a server.
pub struct ClickHouse {
    agent: Agent,
    server: Server,
    password: String,
}

impl ClickHouse {
    /// Prepares for a server; nothing is sent yet.
    pub fn new(server: Server) -> Result<Self, String> {
        let password = server.password()?;
        let agent = Agent::config_builder()
            .timeout_global(Some(MOST_TIME))
            .http_status_as_error(false)
            .user_agent(concat!("ramson/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        Ok(Self { agent, server, password })
    }

    /// Fails unless the server has the tables of this version.
    pub fn check(&self) -> Result<(), String> {
        let text = self.ask("SELECT max(version) FROM schema")?;
        let version: u32 = text.trim().parse().unwrap_or(0);
        if version == SCHEMA_VERSION {
            return Ok(());
        }
        let (age, next) = if version < SCHEMA_VERSION {
            ("older", "Run the files of deploy/clickhouse on the server")
        } else {
            ("newer", "Update this agent")
        };
        Err(format!(
            "{}: its tables have version {version}, which is {age} than this agent's {SCHEMA_VERSION}. {next}",
            self.server.url
        ))
    }

    /// Inserts a batch. `name` is its own, so that it is inserted once, however often it is sent.
    pub fn send(&self, batch: &Batch, name: &str) -> Result<(), String> {
        batch
            .tables
            .iter()
            .filter(|table| table.rows > 0)
            .try_for_each(|table| self.insert(table, name))
    }

    fn insert(&self, table: &Table, name: &str) -> Result<(), String> {
        let insert = format!("INSERT INTO {} ({}) FORMAT RowBinary", table.name, table.columns);
        let token = format!("{name}-{}", table.name);
        let settings = [
            ("query", &*insert),
            ("insert_deduplication_token", &*token),
            ("deduplicate_blocks_in_dependent_materialized_views", "1"),
        ];
        self.post(&settings, &table.bytes).map(drop)
    }

    /// Returns what a query answers, as text.
    pub fn ask(&self, query: &str) -> Result<String, String> {
        self.post(&[], query.as_bytes())
    }

    /// The same with settings.
    pub fn query(&self, settings: &[(&str, &str)], query: &str) -> Result<String, String> {
        self.post(settings, query.as_bytes())
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.server.url
    }

    fn post(&self, settings: &[(&str, &str)], body: &[u8]) -> Result<String, String> {
        let url = &self.server.url;
        let request = self.agent.post(url).query_pairs(settings.iter().copied());
        let request = request
            .query("database", &self.server.database)
            .header("X-ClickHouse-User", &self.server.user)
            .header("X-ClickHouse-Key", &self.password);
        let answer = request.send(body).map_err(|error| format!("{url}: {}", said(&error)))?;
        self.answered(answer).map_err(|reason| format!("{url}: {reason}"))
    }

    fn answered(&self, mut answer: Response<ureq::Body>) -> Result<String, String> {
        let status = answer.status();
        let code =
            answer.headers().get(CODE).and_then(|code| code.to_str().ok()).map(str::to_owned);
        let text = answer.body_mut().with_config().limit(MOST_ANSWER).read_to_string();
        let text = text.map_err(|error| error.to_string())?;
        if status.is_success() && code.is_none() {
            return Ok(text);
        }
        let line = text.lines().next().unwrap_or_default();
        let line: String = line.chars().take(300).collect();
        Err(match code.as_deref() {
            Some("516" | "192" | "194") => {
                format!("user {}: not let in. Check user and password_file", self.server.user)
            }
            Some("81") => format!(
                "no database {}. Run the files of deploy/clickhouse on the server",
                self.server.database
            ),
            Some("60") => {
                "a table is missing. Run the files of deploy/clickhouse on the server".into()
            }
            Some("497") => format!("user {}: has no right to do this ({line})", self.server.user),
            _ => format!("HTTP {}: {line}", status.as_u16()),
        })
    }
}

/// Without the names of kinds and numbers of errors.
fn said(error: &ureq::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("io: ").unwrap_or(&text);
    text.split(" (os error").next().unwrap_or(text).to_owned()
}
