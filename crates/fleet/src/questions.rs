//! Questions to the database, each an SQL file of deploy/clickhouse/questions with its parameters.

use ramson_source::clickhouse::ClickHouse;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Which services use most?
    Services,
    /// Which stacks of a service?
    Stacks,
    /// What has grown beyond chance?
    Grew,
    /// Which stacks did a version not have?
    New,
    /// Which processes of a service?
    Processes,
    /// Which processes differ from their peers?
    Outliers,
    /// Which processes died of memory?
    Deaths,
    /// What would trims return?
    Free,
}

/// A day's first minutes still wait for what was live when it began.
const LATEST: &str = "SELECT if(count() = 0, '', toString(greatest(min(day), least(max(day), toDate(now('UTC') - INTERVAL 3 MINUTE))))) FROM stack_days";

/// Parameters of a question; one that it does not take is ignored.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    /// `2026-11-29`, in UTC. `None`: the latest that has rows.
    pub day: Option<String>,
    /// A service.
    pub service: String,
    /// A version of it.
    pub version: String,
    /// Most rows of the answer.
    pub rows: u32,
}

/// The answer.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Answer {
    /// Name of the question.
    pub question: String,
    /// The day that it is of, in UTC; null: there are no rows at all.
    pub day: Option<String>,
    /// Columns, in their order.
    pub columns: Vec<String>,
    /// An object for each row. Bytes are estimates; X_half_width is the ± of X at 95%.
    pub rows: Vec<Map<String, Value>>,
}

/// As ClickHouse sends it in its format JSONCompact.
#[derive(Deserialize)]
struct Compact {
    meta: Vec<Column>,
    data: Vec<Vec<Value>>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
}

impl Question {
    /// In the order in which they are of use.
    pub const ALL: [Self; 8] = [
        Self::Services,
        Self::Grew,
        Self::Stacks,
        Self::New,
        Self::Processes,
        Self::Outliers,
        Self::Deaths,
        Self::Free,
    ];

    /// As it is asked, and as its file is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Stacks => "stacks",
            Self::Grew => "grew",
            Self::New => "new",
            Self::Processes => "processes",
            Self::Outliers => "outliers",
            Self::Deaths => "deaths",
            Self::Free => "free",
        }
    }

    /// The statement, with places for its parameters.
    pub fn sql(self) -> &'static str {
        macro_rules! file {
            ($name:literal) => {
                include_str!(concat!("../../../deploy/clickhouse/questions/", $name, ".sql"))
            };
        }
        match self {
            Self::Services => file!("services"),
            Self::Stacks => file!("stacks"),
            Self::Grew => file!("grew"),
            Self::New => file!("new"),
            Self::Processes => file!("processes"),
            Self::Outliers => file!("outliers"),
            Self::Deaths => file!("deaths"),
            Self::Free => file!("free"),
        }
    }

    /// Whether it is about one service.
    pub fn is_of_service(self) -> bool {
        matches!(self, Self::Stacks | Self::New | Self::Processes | Self::Outliers)
    }

    /// Versions of a service, the latest first; none: the server does not know the service.
    pub fn versions(server: &ClickHouse, service: &str) -> Result<Vec<String>, String> {
        const VERSIONS: &str = "SELECT version FROM stack_days WHERE service = {service:String} GROUP BY version ORDER BY max(day) DESC, version";
        let text = server.ask(&[("param_service", service), ("readonly", "2")], VERSIONS)?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Asks a server.
    pub fn ask(self, server: &ClickHouse, parameters: &Parameters) -> Result<Answer, String> {
        let mut answer = Answer {
            question: self.name().into(),
            day: parameters.day.clone(),
            columns: Vec::new(),
            rows: Vec::new(),
        };
        if answer.day.is_none() {
            let latest = server.ask(&[("readonly", "2")], LATEST)?;
            answer.day = Some(latest.trim().to_owned()).filter(|day| !day.is_empty());
        }
        let Some(day) = &answer.day else { return Ok(answer) };
        let rows = parameters.rows.to_string();
        let asked = [
            ("param_day", &**day),
            ("param_service", &parameters.service),
            ("param_version", &parameters.version),
            ("param_rows", &rows),
            ("default_format", "JSONCompact"),
            ("output_format_json_quote_64bit_integers", "0"),
            ("readonly", "2"),
        ];
        let text = server.ask(&asked, self.sql())?;
        let Compact { meta, data } = serde_json::from_str(&text)
            .map_err(|error| format!("{}: not an answer of ClickHouse ({error})", server.url()))?;
        answer.columns = meta.into_iter().map(|column| column.name).collect();
        let object = |row| answer.columns.iter().cloned().zip::<Vec<Value>>(row).collect();
        answer.rows = data.into_iter().map(object).collect();
        Ok(answer)
    }
}
