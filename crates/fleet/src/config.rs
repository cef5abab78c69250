//! The agent's configuration, a TOML file.

use serde::Deserialize;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What the agent is to do.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Folder of what is to be sent, and of what is sent already.
    #[serde(default = "usual_state")]
    pub state: PathBuf,
    /// Most bytes that wait there while the server cannot be reached; then the oldest are dropped.
    #[serde(default = "usual_queue_bytes")]
    pub queue_bytes: u64,
    /// Seconds between two looks.
    #[serde(default = "usual_seconds")]
    pub every_seconds: u64,
    /// Name of the host; the kernel's if it is empty.
    #[serde(default)]
    pub host: String,
    /// The database.
    pub clickhouse: Server,
}

/// A ClickHouse server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// `https://clickhouse.internal:8443`.
    pub url: String,
    /// Database with the tables.
    #[serde(default = "usual_database")]
    pub database: String,
    /// User that may insert.
    #[serde(default = "usual_user")]
    pub user: String,
    /// File with the password, which only its owner may read; none: an empty password.
    pub password_file: Option<PathBuf>,
}

fn usual_state() -> PathBuf {
    "/var/lib/ramson/agent".into()
}

fn usual_queue_bytes() -> u64 {
    1 << 30
}

fn usual_seconds() -> u64 {
    60
}

fn usual_database() -> String {
    "ramson".into()
}

fn usual_user() -> String {
    "default".into()
}

impl Config {
    /// Reads a configuration. Fails with a line that names the file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let place = path.display();
        let text = fs::read_to_string(path).map_err(|error| format!("{place}: {error}"))?;
        let config: Self = toml::from_str(&text).map_err(|error| {
            let before = error.span().map_or("", |span| &text[..span.start.min(text.len())]);
            let line = before.matches('\n').count() + 1;
            format!("{place}:{line}: {}", error.message().replace('\n', " "))
        })?;
        config.check().map_err(|finding| format!("{place}: {finding}"))?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let Server { url, database, .. } = &self.clickhouse;
        let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        let host = host.filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| {
            format!("clickhouse.url: {url}: not an address, as in https://clickhouse.internal:8443")
        })?;
        if host.contains('@') {
            return Err(
                "clickhouse.url: no password in the address. Use user and password_file".into()
            );
        }
        let is_name =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if database.is_empty() || !is_name(database) {
            return Err(format!(
                "clickhouse.database: {database}: not a name of letters, digits and _"
            ));
        }
        if !(1..=3600).contains(&self.every_seconds) {
            return Err(format!(
                "every_seconds: {}: not a number from 1 to 3600",
                self.every_seconds
            ));
        }
        self.clickhouse.password().map(drop)
    }
}

impl Server {
    /// Reads the password; it is never shown.
    pub fn password(&self) -> Result<String, String> {
        let Some(path) = &self.password_file else { return Ok(String::new()) };
        let place = path.display();
        let failed = |error| format!("{place}: {error}");
        let mut file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.mode();
        if mode & 0o077 != 0 {
            return Err(format!(
                "{place}: others may read it (mode {:o}): chmod 600 {place}",
                mode & 0o777
            ));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        Ok(text.trim_end_matches(['\r', '\n']).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn read(text: &str) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.toml");
        fs::write(&path, text).unwrap();
        let place = format!("{}", path.display());
        Config::read(&path).map_err(|line| line.replace(&place, "agent.toml"))
    }

    #[test]
    fn mistakes_are_said_with_their_place() {
        let config = read("[clickhouse]\nurl = \"http://127.0.0.1:8123\"\n").unwrap();
        assert_eq!((config.every_seconds, &*config.clickhouse.database), (60, "ramson"));
        let failure = |text| read(text).unwrap_err();
        assert_eq!(
            failure("every_seconds = 60\nclickhose = 1\n"),
            "agent.toml:2: unknown field `clickhose`, expected one of `state`, `queue_bytes`, `every_seconds`, `host`, `clickhouse`"
        );
        assert!(failure("[clickhouse]\nurl = 7\n").starts_with("agent.toml:2: invalid type"));
        assert!(
            failure("[clickhouse]\nurl = \"db:8123\"\n")
                .contains("clickhouse.url: db:8123: not an address")
        );
        assert!(
            failure("[clickhouse]\nurl = \"http://u:secret@db\"\n")
                .contains("no password in the address")
        );
        assert!(
            failure("[clickhouse]\nurl = \"http://db\"\ndatabase = \"a;b\"\n")
                .contains("not a name")
        );
        assert!(
            failure("every_seconds = 0\n[clickhouse]\nurl = \"http://db\"\n")
                .contains("not a number from 1 to 3600")
        );
    }

    #[test]
    fn password_is_not_read_from_a_file_of_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        fs::write(&path, "s3cret\n").unwrap();
        let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let server = Server {
            url: "http://db".into(),
            database: "ramson".into(),
            user: "writer".into(),
            password_file: Some(path.clone()),
        };
        set(0o644);
        assert!(server.password().unwrap_err().contains("others may read it (mode 644)"));
        set(0o600);
        assert_eq!(server.password().unwrap(), "s3cret");
    }
}
