//! The string table: each text once, referred to by position, the empty text first.

use std::collections::HashMap;

pub(super) struct Strings<'a> {
    positions: HashMap<&'a str, i64>,
    table: Vec<&'a str>,
}

impl<'a> Strings<'a> {
    pub(super) fn new() -> Strings<'a> {
        Strings { positions: HashMap::from([("", 0)]), table: vec![""] }
    }

    pub(super) fn index(&mut self, text: &'a str) -> i64 {
        *self.positions.entry(text).or_insert_with(|| {
            self.table.push(text);
            self.table.len() as i64 - 1
        })
    }

    pub(super) fn into_table(self) -> Vec<String> {
        self.table.into_iter().map(String::from).collect()
    }
}
