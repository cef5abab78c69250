//! Batches on their way to a ClickHouse server: they are inserted in RowBinary, each with a token by which the server knows one that comes again.

use crate::layout::{SCHEMA_VERSION, Table};
use crate::queue::Batch;
use ramson_source::clickhouse::ClickHouse;

/// Fails unless the server has the tables of this version.
pub fn check(server: &ClickHouse) -> Result<(), String> {
    let text = server.ask(&[], "SELECT max(version) FROM schema")?;
    let version: u32 = text
        .trim()
        .parse()
        .map_err(|_| format!("{}: not an answer of ClickHouse. Check url", server.url()))?;
    if version == SCHEMA_VERSION {
        return Ok(());
    }
    let next = match version < SCHEMA_VERSION {
        true => "Run schema.sql on the server",
        false => "Update ramson here",
    };
    Err(format!(
        "{}: its tables have version {version}, and this ramson needs {SCHEMA_VERSION}. {next}",
        server.url()
    ))
}

/// Inserts a batch. `name` is its own, so that it is inserted once, however often it is sent.
pub fn insert(server: &ClickHouse, batch: &Batch, name: &str) -> Result<(), String> {
    batch.tables.iter().try_for_each(|table| insert_table(server, table, name))
}

fn insert_table(server: &ClickHouse, table: &Table, name: &str) -> Result<(), String> {
    let statement = format!("INSERT INTO {} ({}) FORMAT RowBinary", table.name, table.columns);
    let token = format!("{name}-{}", table.name);
    let settings = [
        ("query", &*statement),
        ("insert_deduplication_token", &*token),
        ("deduplicate_blocks_in_dependent_materialized_views", "1"),
    ];
    server.post(&settings, &table.bytes).map(drop)
}
