//! Runs programs over allocators and intervals, two at a time where there are two cores, and counts the cells.

use super::build::{self, Built};
use super::cell::{self, Allocator, Interval, Ran, Way};
use super::known::Known;
use super::program::{End, Program};
use super::verdict;
use std::fmt;
use std::sync::Mutex;

/// How often a program is run plain again to see whether it ends by itself as it did under ramson.
const PLAIN_AGAIN: usize = 4;

/// How a cell came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No difference.
    Passed,
    /// `docs/internals/edge-cases.md` gives it up, rightly.
    Known,
    /// The program over this allocator fails or differs by itself, as `docs/internals/edge-cases.md` says.
    NotTestable(String),
    /// Only root can try it.
    NeedsRoot,
    /// The run failed, for this reason.
    Failed(String),
}

/// One cell.
pub struct Cell {
    /// The program's name.
    pub program: String,
    /// The allocator that the program ran over.
    pub allocator: Allocator,
    /// At which interval.
    pub interval: Interval,
    /// How it came out.
    pub outcome: Outcome,
    /// How often it was attached to.
    pub visits: usize,
}

/// All cells of the programs that were run.
pub struct Matrix {
    names: Vec<String>,
    /// By program, allocator and interval.
    pub cells: Vec<Cell>,
}

impl Matrix {
    /// Runs `programs`; `told` hears of each cell that failed as soon as it does.
    pub fn run(programs: &[Program], known: &Known, told: impl Fn(&Cell) + Sync) -> Self {
        Self::of_columns(programs, told, &|program, allocator| {
            run_column(program, allocator, known)
        })
    }

    /// The same with programs that were not started under ramson: they are attached to and detached from as long as they run.
    pub fn run_visited(programs: &[Program], told: impl Fn(&Cell) + Sync) -> Self {
        Self::of_columns(programs, told, &run_visited_column)
    }

    fn of_columns(
        programs: &[Program],
        told: impl Fn(&Cell) + Sync,
        column_of: &(dyn Fn(&Program, Allocator) -> Vec<Cell> + Sync),
    ) -> Self {
        // A crash is an outcome here and not worth a core file.
        let no_core = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Core, no_core);
        let columns = programs.iter().flat_map(|program| {
            program.allocators.iter().map(move |&allocator| (program, allocator))
        });
        let work = Mutex::new(columns);
        let cells = Mutex::new(Vec::new());
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    loop {
                        let next = work.lock().expect("no worker panics").next();
                        let Some((program, allocator)) = next else { return };
                        let column = column_of(program, allocator);
                        column.iter().filter(|cell| cell.has_failed()).for_each(&told);
                        cells.lock().expect("no worker panics").extend(column);
                    }
                });
            }
        });
        let mut cells = cells.into_inner().expect("no worker panicked");
        cells.sort_by(|a, b| {
            (&a.program, a.allocator, a.interval).cmp(&(&b.program, b.allocator, b.interval))
        });
        Self { names: programs.iter().map(|program| program.name.clone()).collect(), cells }
    }

    /// Whether a cell failed.
    pub fn has_failed(&self) -> bool {
        self.cells.iter().any(Cell::has_failed)
    }

    /// How often a program was attached to, and in how many cells at all.
    pub fn visits(&self) -> (usize, usize) {
        (self.cells.iter().map(|cell| cell.visits).sum(), self.count(|cell| cell.visits > 0))
    }

    fn count(&self, is_counted: impl Fn(&Cell) -> bool) -> usize {
        self.cells.iter().filter(|cell| is_counted(cell)).count()
    }
}

impl Cell {
    fn has_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} over {} at {}: ", self.program, self.allocator.name(), self.interval.name())?;
        match &self.outcome {
            Outcome::Passed => write!(f, "passed"),
            Outcome::Known => write!(f, "cannot pass, see docs/internals/edge-cases.md"),
            Outcome::NotTestable(why) => write!(f, "not testable: {why}"),
            Outcome::NeedsRoot => write!(f, "not tried: it needs root"),
            Outcome::Failed(why) => write!(f, "{why}"),
        }
    }
}

/// One program over one allocator: plain, then at each interval.
fn run_column(program: &Program, allocator: Allocator, known: &Known) -> Vec<Cell> {
    let plain = plain_run(program, allocator);
    let outcomes = Interval::ALL.map(|interval| {
        let outcome = match &plain {
            // It proves nothing any more: no table can excuse that.
            Err(Outcome::Failed(why)) => return Outcome::Failed(why.clone()),
            Err(outcome) => outcome.clone(),
            Ok((built, plain)) => run_cell(program, built, allocator, interval, plain),
        };
        known.judge(&program.name, allocator, interval, outcome)
    });
    let cells = Interval::ALL.into_iter().zip(outcomes).map(|(interval, outcome)| Cell {
        program: program.name.clone(),
        allocator,
        interval,
        outcome,
        visits: 0,
    });
    cells.collect()
}

/// One program over one allocator: plain, then with visits.
fn run_visited_column(program: &Program, allocator: Allocator) -> Vec<Cell> {
    if !program.is_attachable {
        return Vec::new();
    }
    let program = &program.attached();
    let plain = plain_run(program, allocator);
    let of = |interval| {
        let (outcome, visits) = match &plain {
            Err(outcome) => (outcome.clone(), 0),
            Ok((built, plain)) => {
                let ran = cell::run(program, built, allocator, Way::Visited(interval));
                (compared(program, built, allocator, plain, &ran), ran.visits)
            }
        };
        Cell { program: program.name.clone(), allocator, interval, outcome, visits }
    };
    [Interval::Default, Interval::Everything].map(of).into()
}

fn plain_run(program: &Program, allocator: Allocator) -> Result<(Built, Ran), Outcome> {
    if program.needs_root && !rustix::process::geteuid().is_root() {
        return Err(Outcome::NeedsRoot);
    }
    let first_lines = |error: String| error.lines().take(3).collect::<Vec<_>>().join(" ");
    // Some programs have functions of the same names.
    let failed = if allocator.is_inside() { Outcome::NotTestable } else { Outcome::Failed };
    let built = build::build(program, allocator).map_err(|error| failed(first_lines(error)))?;
    let plain = cell::run(program, &built, allocator, Way::Plain);
    if program.ends.is_none_or(|ends| plain.end == ends) && plain.end != End::Hang {
        return Ok((built, plain));
    }
    let last = plain.stderr.last().or(plain.stdout.last()).cloned().unwrap_or_default();
    let why = format!("plain, it ended by {:?}: {last}", plain.end);
    // Over glibc it does not do what its author meant, so it would prove nothing.
    let is_the_program_s_fault = allocator == Allocator::Glibc;
    Err(if is_the_program_s_fault { Outcome::Failed(why) } else { Outcome::NotTestable(why) })
}

fn run_cell(
    program: &Program,
    built: &Built,
    allocator: Allocator,
    interval: Interval,
    plain: &Ran,
) -> Outcome {
    let ran = cell::run(program, built, allocator, Way::Preloaded(interval));
    match compared(program, built, allocator, plain, &ran) {
        Outcome::Passed => verdict::fault_of_profiles(program, interval, &ran)
            .map_or(Outcome::Passed, Outcome::Failed),
        other => other,
    }
}

fn compared(
    program: &Program,
    built: &Built,
    allocator: Allocator,
    plain: &Ran,
    ran: &Ran,
) -> Outcome {
    let Some(difference) = verdict::difference(plain, ran) else { return Outcome::Passed };
    let is_its_own = (0..PLAIN_AGAIN).any(|_| {
        let again = cell::run(program, built, allocator, Way::Plain);
        again.end == ran.end && verdict::difference(plain, &again).is_some()
    });
    if is_its_own {
        Outcome::NotTestable("the allocator alone differs".to_owned())
    } else {
        Outcome::Failed(difference)
    }
}

fn is_not_tested(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::NotTestable(_) | Outcome::NeedsRoot)
}

impl fmt::Display for Matrix {
    /// A row for each program, a column for each allocator: cells passed of cells run, `k` known, `n` not testable.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:<28}", "program")?;
        for allocator in Allocator::ALL {
            write!(f, "{:>16}", allocator.name())?;
        }
        writeln!(f)?;
        for name in &self.names {
            write!(f, "{name:<28}")?;
            for allocator in Allocator::ALL {
                let of = |is: fn(&Outcome) -> bool| {
                    self.count(|cell| {
                        cell.program == *name && cell.allocator == allocator && is(&cell.outcome)
                    })
                };
                let all = of(|_| true);
                let mut text = format!("{}/{all}", of(|outcome| *outcome == Outcome::Passed));
                for (mark, count) in
                    [("k", of(|outcome| *outcome == Outcome::Known)), ("n", of(is_not_tested))]
                {
                    if count > 0 {
                        text += &format!(" {count}{mark}");
                    }
                }
                write!(f, "{:>16}", if all == 0 { "-" } else { &text })?;
            }
            writeln!(f)?;
        }
        write!(
            f,
            "hostile: {} of {} cells passed, {} known impossible (docs/internals/edge-cases.md), {} not testable",
            self.count(|cell| cell.outcome == Outcome::Passed),
            self.cells.len(),
            self.count(|cell| cell.outcome == Outcome::Known),
            self.count(|cell| is_not_tested(&cell.outcome)),
        )
    }
}
