//! Call trees that were read, for the next request about them.
//!
//! There is one for each source with its moment, what is counted in it, which frames it has, and what colours them. A tree of a file or of a
//! process that has ended is good as long as the file is the same, and the earlier file, too, if changes colour the tree. Any other tree is good
//! for a second. If all trees take more than a bound, those go that were not used for longest.

use crate::identity::Identity;
use ramson_analysis::flame::{Graph, Shown};
use ramson_analysis::tint::Tint;
use ramson_profile::SampleType;
use ramson_source::Failure;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most bytes of all cached trees. A tree of a million different stacks takes 100 MB, and as much again if both directions were looked at.
const MOST_BYTES: usize = 256 << 20;
/// How long a tree is good that is of a process, or of a moment in the past of one.
const FRESH: Duration = Duration::from_secs(1);

/// Which tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// The SRC, with its moment.
    pub source: String,
    /// The sample type that is counted; `None`: the source's own first choice.
    pub sample_type: Option<SampleType>,
    /// Which frames it has.
    pub shown: Shown,
    /// The figure that colours the frames.
    pub tint: Option<Tint>,
    /// The earlier SRC, where changes colour them.
    pub old: Option<String>,
}

impl Key {
    /// The identities of the files that the key names; `None`: the key names something else, too.
    fn identity(&self) -> Option<Identities> {
        let of = Identity::of(&self.source)?;
        match &self.old {
            Some(old) => Some((of, Some(Identity::of(old)?))),
            None => Some((of, None)),
        }
    }
}

/// The trees that are kept.
pub struct Trees {
    most_bytes: usize,
    fresh: Duration,
    /// The one that was not used for longest first.
    places: Mutex<Vec<(Key, Place)>>,
}

/// Held while the tree is made, so that it is made once.
type Place = Arc<Mutex<Option<Kept>>>;

/// The identities of the source, and of the earlier source if there is one.
type Identities = (Identity, Option<Identity>);

struct Kept {
    graph: Arc<Graph>,
    shown: Shown,
    /// The identities of the files that the tree is of, if it is of files only.
    identity: Option<Identities>,
    made: Instant,
}

impl Trees {
    pub fn new() -> Self {
        Self { most_bytes: MOST_BYTES, fresh: FRESH, places: Mutex::default() }
    }

    /// Returns what `answer` makes of the tree. `read` reads the tree if no good one is cached.
    pub fn with<T>(
        &self,
        key: &Key,
        read: impl FnOnce() -> Result<Graph, Failure>,
        answer: impl FnOnce(&Graph) -> T,
    ) -> Result<T, Failure> {
        let place = self.place(key);
        let graph = {
            let mut kept = lock(&place);
            // The identity of the file before it is read.
            let identity = key.identity();
            match kept.as_ref().filter(|kept| self.is_good(kept, identity, key)) {
                Some(kept) => kept.graph.clone(),
                None => {
                    *kept = None;
                    let graph = Arc::new(read()?);
                    let identity = identity.filter(|_| !graph.is_moving());
                    let made = Instant::now();
                    *kept = Some(Kept { graph: graph.clone(), shown: key.shown, identity, made });
                    graph
                }
            }
        };
        let answered = answer(&graph);
        drop(graph);
        self.bound();
        Ok(answered)
    }

    fn is_good(&self, kept: &Kept, identity: Option<Identities>, key: &Key) -> bool {
        let has_frames = kept.shown == key.shown || kept.graph.has_all();
        let is_same = match kept.identity {
            Some(_) => kept.identity == identity,
            None => self.is_fresh(kept),
        };
        has_frames && is_same
    }

    fn is_fresh(&self, kept: &Kept) -> bool {
        kept.made.elapsed() < self.fresh
    }

    /// The place where the tree is or will be, which becomes the place that was used last.
    fn place(&self, key: &Key) -> Place {
        let mut places = lock(&self.places);
        let is_same = |known: &Key| known == key;
        let otherwise_same = |known: &Key| is_same(&Key { shown: key.shown, ..known.clone() });
        let is_known = |places: &[(Key, Place)]| places.iter().any(|(known, _)| is_same(known));
        // A tree of own frames that is being read may turn out to be the one of all frames: wait for it.
        let is_underway = |(known, place): &&(Key, Place)| {
            known.shown == Shown::Own && otherwise_same(known) && place.try_lock().is_err()
        };
        let underway = places.iter().find(is_underway).map(|(_, place)| place.clone());
        if let Some(underway) = underway.filter(|_| !is_known(&places)) {
            drop(places);
            drop(lock(&underway));
            places = lock(&self.places);
        }
        let has_all = |place: &Place| {
            let kept = place.try_lock().ok();
            kept.is_some_and(|kept| kept.as_ref().is_some_and(|kept| kept.graph.has_all()))
        };
        // A tree from which no frame was taken out is the tree of all frames.
        let serves = |(known, place): &(Key, Place)| otherwise_same(known) && has_all(place);
        let known = places.iter().position(|(known, _)| is_same(known));
        let (key, place) = match known.or_else(|| places.iter().position(serves)) {
            Some(known) => places.remove(known),
            None => (key.clone(), Place::default()),
        };
        places.push((key, place.clone()));
        place
    }

    /// Lets go of what is too much, and of what is good for nothing any more.
    fn bound(&self) {
        let mut places = lock(&self.places);
        // One that is being made is of use, and counts when it is there.
        let bytes = |place: &Place| {
            let kept = place.try_lock().ok()?;
            let kept =
                kept.as_ref().filter(|kept| kept.identity.is_some() || self.is_fresh(kept))?;
            Some(kept.graph.bytes())
        };
        places.retain(|(_, place)| place.try_lock().is_err() || bytes(place).is_some());
        let mut left = self.most_bytes;
        let mut is_last = true;
        for index in (0..places.len()).rev() {
            let place = places[index].1.clone();
            let mut size = bytes(&place).unwrap_or(0);
            if size > left && is_last {
                if let Some(kept) = place.try_lock().ok().as_ref().and_then(|kept| kept.as_ref()) {
                    kept.graph.shrink();
                }
                size = bytes(&place).unwrap_or(0);
            }
            is_last = false;
            match left.checked_sub(size) {
                Some(rest) => left = rest,
                None => drop(places.remove(index)),
            }
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_analysis::flame::Wanted;
    use ramson_analysis::naming::Names;
    use ramson_profile::{Estimate, Location, LookupAddress, Profile, StackSample};
    use ramson_source::open_all;
    use std::cell::Cell;

    fn graph(stacks: u32) -> Graph {
        let location = |address| Location {
            mapping: None,
            address: LookupAddress(address),
            lines: vec![],
            offset: None,
        };
        let sample = |location| StackSample {
            locations: vec![location],
            values: [Estimate::exact(8.0); 4],
            ..StackSample::default()
        };
        let profile = Profile {
            locations: (0..u64::from(stacks)).map(location).collect(),
            samples: (0..stacks).map(sample).collect(),
            ..Profile::default()
        };
        Graph::of_profile(&profile, SampleType::InuseSpace)
    }

    fn key(source: &str, shown: Shown) -> Key {
        Key { source: source.to_owned(), sample_type: None, shown, tint: None, old: None }
    }

    /// Trees, and how often one was read.
    struct Read {
        trees: Trees,
        count: Cell<usize>,
    }

    impl Read {
        fn with(most_bytes: usize, fresh: Duration) -> Self {
            let trees = Trees { most_bytes, fresh, places: Mutex::default() };
            Self { trees, count: Cell::new(0) }
        }

        fn ask(&self, source: &str, stacks: u32) {
            let key = key(source, Shown::Own);
            let read = || {
                self.count.set(self.count.get() + 1);
                Ok(graph(stacks))
            };
            self.trees.with(&key, read, |_| ()).unwrap();
        }

        fn kept(&self) -> Vec<String> {
            lock(&self.trees.places).iter().map(|(key, _)| key.source.clone()).collect()
        }
    }

    #[test]
    fn changed_file_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stacks");
        let source = path.to_str().unwrap();
        std::fs::write(&path, "a 1").unwrap();
        let read = Read::with(MOST_BYTES, Duration::ZERO);
        read.ask(source, 1);
        read.ask(source, 1);
        assert_eq!(read.count.get(), 1);
        std::fs::write(&path, "a 10").unwrap();
        read.ask(source, 1);
        assert_eq!((read.count.get(), read.kept().len()), (2, 1));
    }

    #[test]
    fn changed_baseline_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let [new, old] = ["new", "old"].map(|name| directory.path().join(name));
        let [source, earlier] = [&new, &old].map(|path| path.to_str().unwrap().to_owned());
        let trees = Trees { fresh: Duration::ZERO, ..Trees::new() };
        let tint = Some(Tint::Change);
        let key = Key { tint, old: Some(earlier), ..key(&source, Shown::Own) };
        let count = Cell::new(0);
        let ask = || {
            let read = || {
                count.set(count.get() + 1);
                Ok(graph(1))
            };
            trees.with(&key, read, |_| ()).unwrap();
            count.get()
        };
        std::fs::write(&new, "a 1").unwrap();
        std::fs::write(&old, "a 1").unwrap();
        assert_eq!([ask(), ask()], [1, 1]);
        std::fs::write(&old, "a 10").unwrap();
        assert_eq!([ask(), ask()], [2, 2]);
        std::fs::write(&new, "a 10").unwrap();
        assert_eq!([ask(), ask()], [3, 3]);
        // A file that is not there has no identity.
        std::fs::remove_file(&old).unwrap();
        assert_eq!([ask(), ask()], [4, 5]);
    }

    #[test]
    fn process_trees_expire() {
        let read = Read::with(MOST_BYTES, Duration::from_secs(3600));
        read.ask("4711", 1);
        read.ask("4711", 1);
        assert_eq!((read.count.get(), read.kept().len()), (1, 1));
        let read = Read::with(MOST_BYTES, Duration::ZERO);
        read.ask("4711", 1);
        read.ask("4711", 1);
        assert_eq!((read.count.get(), read.kept().len()), (2, 0));
    }

    #[test]
    fn least_used_trees_are_dropped() {
        let one = graph(100).bytes();
        let read = Read::with(2 * one, Duration::from_secs(3600));
        for source in ["1", "2", "1", "3"] {
            read.ask(source, 100);
        }
        assert_eq!((read.count.get(), read.kept()), (3, vec!["1".to_owned(), "3".to_owned()]));
        // One that is too large by itself is answered from, and not kept.
        read.ask("4", 1000);
        assert_eq!((read.count.get(), read.kept()), (4, vec!["1".to_owned(), "3".to_owned()]));
    }

    #[test]
    fn all_frames_tree_is_shared() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stacks");
        let source = path.to_str().unwrap();
        let trees = Trees::new();
        let count = Cell::new(0);
        let (own, all, no_standard) = (Shown::Own, Shown::All, Shown::NoStandard);
        // After the change, what was read for all is so for none.
        for (stacks, asked, expected) in [
            ("a;b 8\n", [own, all, no_standard, all], 1),
            ("a;std::vector<int>::push_back 8\n", [all, own, no_standard, own], 4),
        ] {
            std::fs::write(&path, stacks).unwrap();
            for shown in asked {
                let key = key(source, shown);
                let read = || {
                    count.set(count.get() + 1);
                    let names = &Names::default();
                    let wanted = Wanted { names, sample_type: None, shown, tint: None };
                    Graph::read(&mut open_all(&[source])?, None, &wanted)
                };
                trees.with(&key, read, |_| ()).unwrap();
            }
            assert_eq!(count.get(), expected, "{stacks}");
        }
    }

    #[test]
    fn possible_all_frames_tree_is_awaited() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stacks");
        let source = path.to_str().unwrap();
        std::fs::write(&path, "a;b 8\n").unwrap();
        let trees = Trees::new();
        let read = |shown| {
            let names = &Names::default();
            let wanted = Wanted { names, sample_type: None, shown, tint: None };
            Graph::read(&mut open_all(&[source])?, None, &wanted)
        };
        let ask_for_all = || {
            let read = || panic!("it was read already");
            trees.with(&key(source, Shown::All), read, |_| ()).unwrap();
        };
        std::thread::scope(|threads| {
            let read = || {
                threads.spawn(ask_for_all);
                // Long enough for the other to come while this is being read.
                std::thread::sleep(Duration::from_millis(100));
                read(Shown::Own)
            };
            trees.with(&key(source, Shown::Own), read, |_| ()).unwrap();
        });
    }

    #[test]
    fn other_tint_is_another_tree() {
        let trees = Trees { fresh: Duration::from_secs(3600), ..Trees::new() };
        let count = Cell::new(0);
        let change = |old: &str| (Some(Tint::Change), Some(old.to_owned()));
        for _ in 0..2 {
            for (tint, old) in
                [(None, None), (Some(Tint::Age), None), change("4711"), change("4711@-1h")]
            {
                let key = Key { tint, old, ..key("4711", Shown::Own) };
                let read = || {
                    count.set(count.get() + 1);
                    Ok(graph(1))
                };
                trees.with(&key, read, |_| ()).unwrap();
            }
        }
        assert_eq!(count.get(), 4);
    }

    #[test]
    fn failed_read_is_tried_again() {
        let trees = Trees::new();
        let key = key("x", Shown::All);
        let fails = || Err(Failure::failed("no"));
        assert!(trees.with(&key, fails, |_| ()).is_err());
        assert!(trees.with(&key, || Ok(graph(1)), |_| ()).is_ok());
    }
}
