//! Heaps that seeds decide (`tests/programs/heaps.c`), what a survey estimates of them, and what a walk of every chunk counts.

use crate::program_with;
use crate::servers::clean;
use ramson_process::allocators::Allocators;
use ramson_process::glibc::{Arena, Effort, Statistics};
use ramson_process::{Area, ProcessMemory, read_smaps};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Names of the figures of [`Figures`].
pub const FIGURES: [&str; 3] = ["live", "free", "releasable"];

/// A process with a heap.
pub struct Heap {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Figures that the program printed of its heap.
    pub said: String,
}

/// Values, and half the widths of their 95% intervals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// In the order of [`FIGURES`]; bytes.
    pub values: [f64; 3],
    /// The same; 0 where every chunk was walked.
    pub half_widths: [f64; 3],
    /// Bytes that the arenas took from the kernel.
    pub taken: f64,
    /// Bytes of the arenas that were read.
    pub read: f64,
}

impl Heap {
    /// Starts a program with the heap of this `seed`; the heap has between `least_mib` and `most_mib`.
    pub fn start(seed: u64, least_mib: u64, most_mib: u64) -> Self {
        let program = program_with("heaps.c", "heaps", &["-Wno-deprecated-declarations"]);
        Self::start_program(program, seed, (least_mib, most_mib), |_| {})
    }

    /// The same of another program, or in another environment.
    pub fn start_program(
        program: PathBuf,
        seed: u64,
        (least_mib, most_mib): (u64, u64),
        set: impl Fn(&mut Command),
    ) -> Self {
        let mut command = clean(program);
        command.args([seed, least_mib, most_mib].map(|number| number.to_string()));
        set(&mut command);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("heaps starts");
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut output = BufReader::new(output);
        let said = line(&mut output);
        Self { process, input, output, said }
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The number behind `name` in what it said.
    #[track_caller]
    pub fn said(&self, name: &str) -> f64 {
        let mut words = self.said.split_whitespace().skip_while(|word| *word != name);
        let number = words.nth(1).and_then(|word| word.parse().ok());
        number.unwrap_or_else(|| panic!("no {name} in {}", self.said))
    }

    /// Has it call `malloc_trim`; by how much RSS fell, in bytes.
    pub fn trim(&mut self) -> f64 {
        writeln!(self.input).unwrap();
        let said = line(&mut self.output);
        said.trim().strip_prefix("returned ").unwrap().parse().unwrap()
    }

    /// Reads the statistics of the heap.
    pub fn read(&self, effort: Effort) -> Statistics {
        let (memory, areas) = self.open();
        Allocators::of(self.pid(), &areas).statistics(&memory, &areas, effort).unwrap()
    }

    fn open(&self) -> (ProcessMemory, Vec<Area>) {
        (ProcessMemory::open(self.pid()).unwrap(), read_smaps(self.pid()).unwrap())
    }

    /// Fails unless a walk of every chunk found what the program says itself.
    #[track_caller]
    pub fn assert_agrees(&self, walked: &Statistics) {
        assert!(!walked.is_surveyed() && walked.not_walked_share() == 0.0, "{}", self.said);
        assert_eq!(walked.sum(|arena| arena.system_bytes) as f64, self.said("arena"));
        assert_eq!(walked.sum(Arena::free_bytes) as f64, self.said("free"), "{}", self.said);
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        let _ = (self.process.kill(), self.process.wait());
    }
}

fn line(output: &mut impl BufRead) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line
}

impl Figures {
    /// Live are the resident bytes that the program has.
    pub fn of(statistics: &Statistics) -> Self {
        let sum = |part: fn(&Arena) -> u64| statistics.sum(part) as f64;
        Self {
            values: [
                statistics.live_resident_bytes() as f64,
                sum(Arena::free_bytes),
                sum(Arena::releasable_bytes),
            ],
            half_widths: [
                statistics.live_half_width_95_bytes(),
                statistics.half_width_95_bytes(),
                statistics.releasable_half_width_95_bytes(),
            ],
            taken: sum(|arena| arena.system_bytes),
            read: statistics.read_bytes as f64,
        }
    }

    /// How far each figure is off the truth.
    pub fn off(&self, truth: &Self) -> [f64; 3] {
        [0, 1, 2].map(|index| self.values[index] - truth.values[index])
    }

    /// Whether each interval has the truth in it. Bytes are whole.
    pub fn covers(&self, truth: &Self) -> [bool; 3] {
        let off = self.off(truth);
        [0, 1, 2].map(|index| off[index].abs() <= self.half_widths[index] + 1.0)
    }
}

/// Smaller than the default survey's, as if the heaps were larger.
pub const PIECES: usize = 256;

/// Fails unless a walk agrees with what the program says, and a survey of it, within twice its interval, with the walk.
#[track_caller]
pub fn assert_covers(heap: &Heap, what: &str) {
    let walked = heap.read(Effort::Exact);
    heap.assert_agrees(&walked);
    let surveyed = Figures::of(&heap.read(Effort::Sample(PIECES)));
    let off = surveyed.off(&Figures::of(&walked));
    for index in 0..3 {
        let allowed = 2.0 * surveyed.half_widths[index] + 1.0;
        assert!(
            off[index].abs() <= allowed,
            "{what}: {index}, {off:?}, {surveyed:?}, {}",
            heap.said
        );
    }
}
