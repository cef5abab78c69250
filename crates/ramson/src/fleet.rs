//! `ramson fleet`: questions about all hosts whose agents send to one ClickHouse server.

use crate::flags::FleetFlags;
use crate::output::{print, print_json, print_raw};
use crate::table;
use ramson_fleet::{Config, Parameters, Question, check};
use ramson_profile::printable;
use ramson_source::Failure;
use ramson_source::clickhouse::ClickHouse;

pub fn fleet(flags: &FleetFlags) -> Result<(), Failure> {
    let question = Question::from(flags.question);
    if flags.sql {
        return print_raw(question.sql().as_bytes());
    }
    let name = question.name();
    let service = match &flags.service {
        None if question.is_of_service() => {
            return Err(Failure::usage(format!(
                "{name} needs a service, as in \"ramson fleet {name} SERVICE\". \"ramson fleet\" lists them"
            )));
        }
        Some(service) if !question.is_of_service() => {
            return Err(Failure::usage(format!(
                "{service}: {name} takes no service. Leave it out, or ask \"ramson fleet stacks {service}\""
            )));
        }
        service => service.clone().unwrap_or_default(),
    };
    if question != Question::New && flags.since.is_some() {
        return Err(Failure::usage(format!(
            "--since: {name} takes no version. Leave it out, or ask \"ramson fleet new SERVICE\""
        )));
    }
    let config = Config::read(&flags.config).map_err(Failure::usage)?;
    let server = ClickHouse::new(config.clickhouse).map_err(Failure::usage)?;
    check(&server).map_err(Failure::failed)?;
    let since = match question.is_of_service() {
        true => known_version(&server, question, &service, flags.since.as_deref())?,
        false => String::new(),
    };
    let (day, rows) = (flags.day.clone(), flags.rows);
    let parameters = Parameters { day, service, version: since, rows };
    let answer = question.ask(&server, &parameters).map_err(Failure::failed)?;
    if flags.json {
        return print_json("fleet", &answer);
    }
    print(&table::fleet::text(question, &parameters, &answer))
}

/// The version that begins with `since`. Fails for a service that the server does not have.
fn known_version(
    server: &ClickHouse,
    question: Question,
    service: &str,
    since: Option<&str>,
) -> Result<String, Failure> {
    const MOST_LISTED: usize = 5;
    let all = Question::versions(server, service).map_err(Failure::failed)?;
    let shown = printable(service);
    if all.is_empty() {
        return Err(Failure::not_found(format!(
            "{shown}: no agent has sent anything of this service. \"ramson fleet\" lists those that are there"
        )));
    }
    if question != Question::New {
        return Ok(String::new());
    }
    let list: Vec<_> = all.iter().take(MOST_LISTED).map(|it| printable(it)).collect();
    let list = list.join(", ");
    let Some(since) = since else {
        return Err(Failure::usage(format!(
            "new needs --since VERSION. Versions of {shown}, the latest first: {list}"
        )));
    };
    if all.iter().any(|it| it == since) {
        return Ok(since.into());
    }
    let begin_so: Vec<_> = all.iter().filter(|it| it.starts_with(since)).collect();
    let finding = match &*begin_so {
        [only] => return Ok((*only).clone()),
        [] => "no version begins",
        _ => "several versions begin",
    };
    Err(Failure::not_found(format!(
        "{shown}: {finding} with {since}. Its versions, the latest first: {list}"
    )))
}
