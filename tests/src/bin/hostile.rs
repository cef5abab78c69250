//! `hostile [--attached] [--inside] [NAME…]`: runs the matrix of hostile programs, or the named rows of it; with `--attached` programs are
//! attached to while they run, with `--inside` they run over the allocators that are linked into them only. See `ramson_tests::hostile`.
#![forbid(unsafe_code)]

use ramson_tests::hostile::{Known, Matrix, Outcome, Program, programs};
use std::process::ExitCode;

fn main() -> ExitCode {
    match chosen().and_then(|programs| Ok((programs, Known::read()?))) {
        Ok((programs, known)) => run(&programs, &known),
        Err(error) => {
            eprintln!("hostile: {error}");
            ExitCode::from(2)
        }
    }
}

const ATTACHED: &str = "--attached";
const INSIDE: &str = "--inside";

fn has(option: &str) -> bool {
    std::env::args().any(|word| word == option)
}

fn chosen() -> Result<Vec<Program>, String> {
    let all = programs()?;
    let names: Vec<String> =
        std::env::args().skip(1).filter(|word| ![ATTACHED, INSIDE].contains(&&**word)).collect();
    if let Some(name) = names.iter().find(|name| all.iter().all(|program| program.name != **name)) {
        return Err(format!("{name}: no such program in tests/hostile"));
    }
    let is_chosen = |program: &Program| names.is_empty() || names.contains(&program.name);
    let mut chosen: Vec<_> = all.into_iter().filter(is_chosen).collect();
    if has(INSIDE) {
        chosen.iter_mut().for_each(|program| program.allocators.retain(|it| it.is_inside()));
    }
    Ok(chosen)
}

fn run(programs: &[Program], known: &Known) -> ExitCode {
    let is_attached = has(ATTACHED);
    let matrix = if is_attached {
        Matrix::run_visited(programs, |cell| eprintln!("FAILED {cell}"))
    } else {
        Matrix::run(programs, known, |cell| eprintln!("FAILED {cell}"))
    };
    for cell in &matrix.cells {
        if matches!(cell.outcome, Outcome::NotTestable(_) | Outcome::NeedsRoot | Outcome::Known) {
            println!("{cell}");
        }
    }
    println!("{matrix}");
    if is_attached {
        let (visits, cells) = matrix.visits();
        println!("attached to {visits} times, in {cells} cells");
    }
    if matrix.has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
