//! Histories of others, in the worker that reads them.

use crate::apart::{Asked, HISTORY};
use crate::database::Database;
use crate::guard::Budget;
use crate::image::Image;
use crate::question::Answer;
use crate::schema::HistoryError;
use ramson_apart::Handler;
use std::fs::File;

/// Times that a history is read anew that was written to meanwhile: a writer writes every second or so.
const MOST_READINGS: u32 = 20;

/// Reads histories that come as descriptors: the database, and the log beside it.
#[derive(Default)]
pub struct HistoryReader {
    /// The last one, by its number.
    last: Option<(u64, Database)>,
}

impl Handler for HistoryReader {
    fn kinds(&self) -> &'static [u8] {
        &[HISTORY]
    }

    fn answer(&mut self, _: u8, body: &[u8], files: Vec<File>) -> Option<Vec<u8>> {
        let asked: Asked = borsh::from_slice(body).ok()?;
        borsh::to_vec(&self.read(asked, files)?).ok()
    }
}

impl HistoryReader {
    /// `None`: these are not the files of a history.
    fn read(&mut self, asked: Asked, files: Vec<File>) -> Option<Result<Answer, HistoryError>> {
        let Asked { number, is_trusted, question } = asked;
        if self.last.as_ref().is_none_or(|(last, _)| *last != number) {
            self.last = None;
            let mut files = files.into_iter();
            let database = files.next()?;
            let budget = if is_trusted { Budget::OWN } else { Budget::STRANGER };
            match opened(&database, files.next().as_ref(), budget) {
                Ok(opened) => self.last = Some((number, opened)),
                Err(error) => return Some(Err(error)),
            }
        }
        self.last.as_ref().map(|(_, database)| database.answer(question))
    }
}

fn opened(database: &File, log: Option<&File>, budget: Budget) -> Result<Database, HistoryError> {
    let open = || Database::given(Image::of(database, log)?, budget);
    let mut opened = open();
    for _ in 1..MOST_READINGS {
        if !matches!(opened, Err(HistoryError::Changing)) {
            break;
        }
        opened = open();
    }
    opened
}
