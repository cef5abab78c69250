//! The terms of RSS at one of many moments: without their intervals.

use crate::rss::Rss;
use ramson_history::TERM_COUNT;
use ramson_process::Term;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Bytes of the terms of RSS, in the order of `Term::ALL`, which is that of a history's columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms(pub [i64; TERM_COUNT]);

impl Terms {
    /// Takes the terms from a reading of RSS, in whole bytes.
    pub fn of(rss: &Rss) -> Self {
        Self(Term::ALL.map(|(term, _)| rss.term(term).value.round() as i64))
    }

    /// Names and bytes of those that are not 0.
    pub fn known(&self) -> impl Iterator<Item = (&'static str, i64)> {
        let all = Term::ALL.iter().map(|&(_, name)| name).zip(self.0);
        all.filter(|&(_, bytes)| bytes != 0)
    }
}

/// By their names, without those that are 0.
impl Serialize for Terms {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.known())
    }
}

impl JsonSchema for Terms {
    fn schema_name() -> Cow<'static, str> {
        "Terms".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, i64>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_columns_match_terms() {
        let (_, columns) = ramson_history::TABLES.split_once("CREATE TABLE terms (").unwrap();
        let columns: Vec<&str> =
            columns.split(',').filter_map(|column| column.split_whitespace().next()).collect();
        assert_eq!(columns[1..], Term::ALL.map(|(_, name)| name));
    }
}
