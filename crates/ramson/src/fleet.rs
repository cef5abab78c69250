//! `ramson fleet`: questions about all hosts whose agents send to one ClickHouse server.

use crate::flags::FleetFlags;
use crate::output::{print, print_json, print_raw};
use crate::table;
use ramson_fleet::{ClickHouse, Config, Parameters, Question};
use ramson_source::Failure;

pub fn fleet(flags: &FleetFlags) -> Result<(), Failure> {
    let question = Question::from(flags.question);
    if flags.sql {
        return print_raw(question.sql().as_bytes());
    }
    let name = question.name();
    let service = match &flags.service {
        None if question.is_of_service() => {
            return Err(Failure::usage(format!(
                "{name} of which service? \"ramson fleet\" lists them; then \"ramson fleet {name} SERVICE\""
            )));
        }
        Some(service) if !question.is_of_service() => {
            return Err(Failure::usage(format!(
                "{service}: {name} is about all services. Leave it out, or ask \"ramson fleet stacks {service}\""
            )));
        }
        service => service.clone().unwrap_or_default(),
    };
    if question == Question::New && flags.since.is_none() {
        return Err(Failure::usage(format!(
            "new since which version? \"ramson fleet new {service} --since VERSION\"; \"ramson fleet outliers {service} --json\" shows versions"
        )));
    }
    let parameters = Parameters {
        day: flags.day.clone(),
        service,
        version: flags.since.clone().unwrap_or_default(),
        rows: flags.rows,
    };
    let config = Config::read(&flags.config).map_err(|finding| {
        Failure::usage(format!("{finding}. --config FILE; \"ramson fleet --help\" shows one"))
    })?;
    let server = ClickHouse::new(config.clickhouse).map_err(Failure::usage)?;
    server.check().map_err(Failure::failed)?;
    let answer = question.ask(&server, &parameters).map_err(Failure::failed)?;
    if flags.json {
        return print_json("fleet", &answer);
    }
    print(&table::fleet::text(question, &parameters, &answer))
}
