//! Two descriptors give the same as the file, also while it is written to; whatever they contain, the result is an answer or an error.

use super::{Place, record};
use crate::apart::{Asked, is_usable};
use crate::database::Database;
use crate::guard::Budget;
use crate::image::Image;
use crate::query::History;
use crate::question::{Answer, Moment, Question};
use crate::schema::HistoryError;
use crate::serve::HistoryReader;
use crate::trigger::Triggers;
use ramson_apart::Handler;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

impl Place {
    fn log(&self) -> PathBuf {
        self.0.path().join("history.db-wal")
    }

    fn files(&self) -> (File, Option<File>) {
        (File::open(self.database()).unwrap(), File::open(self.log()).ok())
    }
}

fn given(files: &(File, Option<File>)) -> Result<Database, HistoryError> {
    Database::given(Image::of(&files.0, files.1.as_ref())?, Budget::OWN)
}

fn series(database: &Database, process: i64) -> Vec<Moment> {
    let all = Question::Series { process, from_ns: 0, to_ns: u64::MAX };
    let Ok(Answer::Moments(moments)) = database.answer(all) else { panic!("no series") };
    moments
}

/// Everything that both tell.
#[track_caller]
fn assert_equal(database: &Database, history: &History) {
    let processes = history.processes().unwrap();
    let Ok(Answer::Processes(read)) = database.answer(Question::Processes) else { panic!() };
    assert_eq!(read, processes);
    assert!(!processes.is_empty());
    for process in processes.iter().map(|process| process.id) {
        let moments = history.series(process, 0, u64::MAX).unwrap();
        assert_eq!(series(database, process), moments);
        for moment in [moments.first().unwrap(), moments.last().unwrap()] {
            let question = Question::Snapshot { process, moment: Box::new(moment.clone()) };
            let Ok(Answer::Snapshot(read)) = database.answer(question) else { panic!() };
            assert_eq!(*read, history.snapshot(process, moment).unwrap());
            assert!(is_usable(&read));
        }
    }
}

#[test]
fn descriptors_read_like_the_file() {
    let place = Place::new("image");
    let mut writer = place.writer();
    for round in 0..30u32 {
        record(&mut writer, 1 + round % 3, 10 * (1 + u64::from(round)), Triggers::CLOCK);
        let files = place.files();
        assert!(files.1.is_some(), "nothing is in the log");
        assert_equal(&given(&files).unwrap(), &History::open(&place.database()).unwrap());
    }
    drop(writer);
    let files = place.files();
    assert!(files.1.is_none(), "there is a log without a writer");
    assert_equal(&given(&files).unwrap(), &History::open(&place.database()).unwrap());
}

#[test]
fn change_during_reading_is_noticed() {
    let place = Place::new("moving");
    let mut writer = place.writer();
    record(&mut writer, 1, 100, Triggers::CLOCK);
    let files = place.files();
    let mut image = Image::of(&files.0, files.1.as_ref()).unwrap();
    image.read_exact(&mut [0; 100]).unwrap();
    assert!(image.is_still().unwrap());
    record(&mut writer, 1, 200, Triggers::CLOCK);
    assert!(!image.is_still().unwrap());
    // A writer that ends takes the log away.
    let image = Image::of(&files.0, files.1.as_ref()).unwrap();
    drop(writer);
    assert!(!image.is_still().unwrap());
    assert!(matches!(given(&files), Err(HistoryError::Changing)));
    let files = place.files();
    let image = Image::of(&files.0, None).unwrap();
    assert!(image.is_still().unwrap());
    let later = files.0.metadata().unwrap().modified().unwrap() + std::time::Duration::from_secs(1);
    File::options().write(true).open(place.database()).unwrap().set_modified(later).unwrap();
    assert!(!image.is_still().unwrap());
}

#[test]
fn log_counts_to_last_whole_commit() {
    let place = Place::new("log");
    let mut writer = place.writer();
    let mut lengths = Vec::new();
    for round in 1..=4 {
        record(&mut writer, 1, 100 * round, Triggers::CLOCK);
        lengths.push(fs::metadata(place.log()).unwrap().len());
    }
    let whole = fs::read(place.log()).unwrap();
    let copy = Place::new("log-copy");
    fs::copy(place.database(), copy.database()).unwrap();
    let moments_with = |log: &[u8]| {
        fs::write(copy.log(), log).unwrap();
        given(&copy.files()).map(|database| series(&database, 1).len())
    };
    let all = moments_with(&whole).unwrap();
    for (round, &length) in (1..).zip(&lengths) {
        let found = moments_with(&whole[..length as usize]).unwrap();
        assert_eq!(found + lengths.len() - round, all);
        // Half of the next frame.
        let more = whole.len().min(length as usize + 600);
        assert_eq!(moments_with(&whole[..more]).unwrap(), found);
        // A byte of the commit's last frame.
        let mut damaged = whole.clone();
        damaged[length as usize - 9] ^= 1;
        let before = moments_with(&damaged);
        assert!(before.as_ref().map_or(round == 1, |before| before + 1 == found), "{before:?}");
    }
    // Any byte of the header, and of the frames' headers.
    for at in (0..32).chain(32..56) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x80;
        let read = moments_with(&damaged);
        assert!(read.is_err() || read.is_ok_and(|found| found < all), "byte {at}");
    }
}

#[test]
fn odd_database_length_costs_no_memory() {
    let place = Place::new("length");
    let mut writer = place.writer();
    record(&mut writer, 1, 100, Triggers::CLOCK);
    drop(writer);
    let file = File::options().write(true).open(place.database()).unwrap();
    file.set_len(1 << 40).unwrap();
    let read = given(&place.files());
    assert!(matches!(read, Err(HistoryError::OverBudget)), "{:?}", read.err());
    for length in [0, 1, 99, 100, 511, 1024, 3000] {
        file.set_len(length).unwrap();
        assert!(given(&place.files()).is_err(), "{length} bytes");
    }
    // Pages of no size.
    file.write_all_at(&[0, 3], 16).unwrap();
    assert!(matches!(given(&place.files()), Err(HistoryError::NotAHistory)));
}

#[test]
fn worker_answers_its_own_history_only() {
    let [one, other] = [1, 2].map(|pid| {
        let place = Place::new("worker");
        let mut writer = place.writer();
        record(&mut writer, pid, 100, Triggers::CLOCK);
        drop(writer);
        place
    });
    let mut worker = HistoryReader::default();
    let mut pids = |number, place: &Place| {
        let asked = Asked { number, is_trusted: false, question: Question::Processes };
        let body = borsh::to_vec(&asked).unwrap();
        let files = vec![File::open(place.database()).unwrap()];
        let answer = worker.answer(0x48, &body, files).unwrap();
        let read: Result<Answer, HistoryError> = borsh::from_slice(&answer).unwrap();
        let Ok(Answer::Processes(processes)) = read else { panic!() };
        processes.iter().map(|process| process.pid).collect::<Vec<_>>()
    };
    assert_eq!((pids(1, &one), pids(2, &other), pids(1, &one)), (vec![1], vec![2], vec![1]));
    assert!(worker.answer(0x48, &[], Vec::new()).is_none());
}
