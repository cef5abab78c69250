//! The agent's configuration, a TOML file.

use ramson_format::settings::{MAX_INTERVAL_BYTES, parse_size};
use ramson_profile::Pattern;
use ramson_source::clickhouse::Server;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::fs;
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
    /// Go programs are followed, too, by the samples of their own runtime.
    #[serde(default)]
    pub go: bool,
    /// The database.
    pub clickhouse: Server,
    /// Which processes are attached to.
    #[serde(default)]
    pub attach: Vec<Rule>,
}

/// Processes that are recorded from a round on at which they have been there for a while.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Matches the name or the command line.
    #[serde(rename = "match", deserialize_with = "pattern")]
    pub pattern: Pattern,
    /// Mean bytes from one sample to the next.
    #[serde(default = "usual_interval", deserialize_with = "size")]
    pub interval: u64,
    /// Allocators inside the executable and libraries are recorded, too.
    #[serde(default)]
    pub inside: bool,
}

fn pattern<'de, D: Deserializer<'de>>(from: D) -> Result<Pattern, D::Error> {
    let text = String::deserialize(from)?;
    Pattern::new(&text).map_err(|finding| D::Error::custom(format!("{text}: {finding}")))
}

fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    let bytes = parse_size(text.as_bytes());
    let bytes = bytes.filter(|bytes| (1..=MAX_INTERVAL_BYTES).contains(bytes));
    bytes.ok_or_else(|| D::Error::custom(format!("{text}: not a size. Example: \"512K\"")))
}

fn usual_interval() -> u64 {
    512 << 10
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

impl Config {
    /// Reads a configuration. Fails with a line that names the file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let place = path.display();
        let next = "Pass --config FILE; --help shows one";
        let unread = |error| format!("{place}: {error}. {next}");
        // To open a FIFO would wait for its writer.
        if !path.metadata().map_err(unread)?.is_file() {
            return Err(format!("{place}: not a file. {next}"));
        }
        let text = fs::read_to_string(path).map_err(unread)?;
        let config: Self = toml::from_str(&text).map_err(|error| {
            let before = error.span().map_or("", |span| &text[..span.start.min(text.len())]);
            let line = before.matches('\n').count() + 1;
            format!("{place}:{line}: {}", error.message().replace('\n', " "))
        })?;
        config.check().map_err(|finding| format!("{place}: {finding}"))?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        if !(1..=3600).contains(&self.every_seconds) {
            return Err(format!("every_seconds: {}: must be 1 to 3600", self.every_seconds));
        }
        self.clickhouse.check().map_err(|finding| format!("clickhouse: {finding}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "agent.toml:2: unknown field `clickhose`, expected one of `state`, `queue_bytes`, `every_seconds`, `host`, `go`, `clickhouse`, `attach`"
        );
        let rule = |rule| format!("[clickhouse]\nurl = \"http://db\"\n[[attach]]\n{rule}\n");
        let config = read(&rule("match = '^redis'\ninterval = \"64K\"")).unwrap();
        assert_eq!((config.attach[0].interval, config.attach[0].inside), (64 << 10, false));
        for (wrong, part) in [
            ("match = '('", "agent.toml:4: (: not a"),
            ("match = 'a'\ninterval = \"0\"", "agent.toml:5: 0: not a size"),
            ("interval = \"64K\"", "missing field `match`"),
        ] {
            let finding = read(&rule(wrong)).unwrap_err();
            assert!(finding.contains(part), "{finding}");
        }
        assert!(failure("[clickhouse]\nurl = 7\n").starts_with("agent.toml:2: invalid type"));
        assert!(
            failure("[clickhouse]\nurl = \"db:8123\"\n")
                .contains("clickhouse: url: db:8123: not an http address")
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
                .contains("must be 1 to 3600")
        );
    }
}
