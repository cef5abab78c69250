//! Old and excess snapshots go; those that a coarser level takes over stay what they were.

use super::*;

fn tidy(writer: &mut HistoryWriter, now_ns: u64) {
    while writer.tidy(now_ns).unwrap().has_more {}
}

#[test]
fn thinning_keeps_marks_and_peaks() {
    let place = Place::new("thinned");
    let mut writer = place.writer();
    let second = |hour: u64| hour * 3600;
    record(&mut writer, 1, 1, Triggers::START);
    for tick in 1..=6 * 60 {
        record(&mut writer, 1, tick * 10, Triggers::CLOCK);
    }
    let marked = snapshot(1, 5, 41);
    writer.mark(&taken(&marked, 4000, Triggers::MARK), "deploy").unwrap();
    // Somebody else has written, and the writer notices.
    let mut other = place.writer();
    let more = snapshot(1, 9, 42);
    other.mark(&taken(&more, 4003, Triggers::MARK), "other").unwrap();
    let grown = snapshot(1, 12, 43);
    writer.append(&[taken(&grown, 4010, Triggers::LIVE_PEAK)]).unwrap();
    record(&mut writer, 1, second(20), Triggers::CLOCK);
    tidy(&mut writer, START + second(20) * SECOND);
    let history = History::open(&place.database()).unwrap();
    let times = |from: u64, to: u64| -> Vec<u64> {
        let series = history.series(1, START + from * SECOND, START + to * SECOND).unwrap();
        series.iter().map(|moment| (moment.time_ns - START) / SECOND).collect()
    };
    assert!(times(0, 3600).len() >= 60 && times(0, 3600).len() < 150, "{:?}", times(0, 3600));
    assert_eq!(times(3601, second(19)), [4000, 4003, 4010]);
    tidy(&mut writer, START + second(48) * SECOND);
    assert!(times(0, 3600).len() <= 8, "{:?}", times(0, 3600));
    let mark = history.mark(1, "deploy").unwrap().unwrap();
    assert_eq!(comparable(&history.snapshot(1, &mark).unwrap()), comparable(&marked));
    assert_eq!(history.peak(1).unwrap().unwrap().time_ns, START + second(20) * SECOND);
    tidy(&mut writer, START + 40 * DAY);
    assert_eq!(history.processes().unwrap(), []);
    record(&mut writer, 1, 9, Triggers::CLOCK);
    assert_eq!(history.processes().unwrap().len(), 1);
}

#[test]
fn coarser_levels_keep_taken_snapshots() {
    let place = Place::new("coarser");
    let mut writer = place.writer();
    let seconds: Vec<u64> = (1..=600).map(|tick| tick * 10).collect();
    for &at in &seconds {
        let triggers = if at == 1230 { Triggers::PRESSURE } else { Triggers::CLOCK };
        record(&mut writer, 1, at, triggers);
        if at % 1000 == 0 {
            // As after a restart.
            writer = place.writer();
        }
    }
    record(&mut writer, 1, 2 * 86_400, Triggers::CLOCK);
    let history = History::open(&place.database()).unwrap();
    for (hour, least, most) in [(2, 300, 500), (20, 95, 125), (52, 10, 20)] {
        tidy(&mut writer, START + hour * 3600 * SECOND);
        let series = history.series(1, START, START + DAY).unwrap();
        assert!((least..=most).contains(&series.len()), "hour {hour}: {}", series.len());
        for moment in &series {
            let at = (moment.time_ns - START) / SECOND;
            let expected = snapshot(1, 5, at / 100 + 1);
            let read = history.snapshot(1, moment).unwrap();
            assert_eq!(comparable(&read), comparable(&expected), "hour {hour}, {at}");
            for (read, expected) in read.stacks.iter().zip(&expected.stacks) {
                let error = (read.alloc_space - expected.alloc_space).abs();
                assert!(error <= INTERVAL as f64 / 32.0, "hour {hour}, {at}: {error}");
            }
        }
        let kept = history.at(1, START + 1230 * SECOND).unwrap().unwrap();
        assert_eq!((kept.time_ns - START) / SECOND, 1230);
        assert_eq!(kept.triggers.to_string(), "pressure");
    }
}

#[test]
fn oversized_database_loses_oldest_snapshots() {
    let place = Place::new("bounded");
    let most = 300 << 10;
    let levels = Levels::new(10 * SECOND, 30 * DAY);
    let mut writer = HistoryWriter::open(&place.database(), levels, most).unwrap();
    let mut excess = 0;
    for round in 1..=300 {
        let snapshot = snapshot(round, 30, 2);
        let at = u64::from(round) * 600;
        writer.append(&[taken(&snapshot, at, Triggers::CLOCK)]).unwrap();
        excess += writer.tidy(START + at * SECOND).unwrap().excess;
        assert!(writer.used_bytes().unwrap() <= most);
    }
    assert!(excess > 0);
    drop(writer);
    assert!(fs::metadata(place.database()).unwrap().len() <= most + (64 << 10));
    let processes = History::open(&place.database()).unwrap().processes().unwrap();
    assert!(processes[0].pid > 1 && processes.len() > 1);
    assert_eq!(processes.last().unwrap().pid, 300);
}
