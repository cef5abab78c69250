//! The representative part of the matrix of hostile programs; `make hostile` runs all of it.

use ramson_tests::hostile::{Allocator, Interval, Known, Matrix, Outcome, Program, programs};
use std::path::Path;

#[test]
fn representative_programs_pass_under_ramson() {
    let mut programs = programs().unwrap();
    programs.retain(|program| program.is_representative);
    assert!(!programs.is_empty());
    let matrix = Matrix::run(&programs, &Known::read().unwrap(), |cell| eprintln!("FAILED {cell}"));
    println!("{matrix}");
    assert!(!matrix.has_failed());
}

#[test]
fn known_cells_name_existing_programs() {
    let programs = programs().unwrap();
    for name in Known::read().unwrap().programs() {
        let is_there = |program: &Program| program.name == name;
        assert!(
            programs.iter().any(is_there),
            "docs/internals/edge-cases.md names {name}, tests/hostile does not"
        );
    }
}

/// Tables to which rows of cells that cannot pass can be added.
const NOTHING_KNOWN: &str = "## Cells with nothing to compare\n\n## Cells that cannot pass\n";

#[test]
fn omitted_allocators_are_documented() {
    let known = Known::read().unwrap();
    for program in programs().unwrap() {
        for allocator in Allocator::ALL {
            if allocator.is_inside() && !program.is_linked() {
                continue;
            }
            let is_told = known.has_nothing_to_compare(&program.name, allocator);
            assert!(
                program.allocators.contains(&allocator) || is_told,
                "docs/internals/edge-cases.md does not say why {} is not tried over {}",
                program.name,
                allocator.name()
            );
        }
    }
}

/// A program that behaves otherwise under ramson in this way.
fn notices(way: &str) -> Program {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("hostile/parts/notices.c");
    let mut program = Program::of(&source).unwrap();
    program.environment.push(("WAY".to_owned(), way.to_owned()));
    program
}

fn matrix_of(way: &str, known: &str) -> Matrix {
    Matrix::run(&[notices(way)], &Known::parse(known).unwrap(), |_| ())
}

#[test]
fn unrecorded_program_fails_its_cell() {
    for (name, must_fail) in [("notices", false), ("nobody", true)] {
        let mut program = notices("nothing");
        program.recorded.push(name.to_owned());
        let matrix = Matrix::run(&[program], &Known::parse(NOTHING_KNOWN).unwrap(), |_| ());
        for cell in matrix.cells {
            let has_failed = matches!(cell.outcome, Outcome::Failed(_));
            assert_eq!(has_failed, must_fail && cell.interval == Interval::Everything, "{cell}");
        }
    }
}

#[test]
fn broken_program_is_never_excused() {
    let mut program = notices("nothing");
    program.environment.push(("PLAIN".to_owned(), "hangs".to_owned()));
    for table in ["## Cells that cannot pass\n", "## Cells with nothing to compare\n"] {
        let row = "| p | a | i | r |\n|-|-|-|-|\n| notices | any | any | so |\n\n";
        let known = NOTHING_KNOWN.replace(table, &format!("{table}{row}"));
        let known = Known::parse(&known).unwrap();
        let matrix = Matrix::run(std::slice::from_ref(&program), &known, |_| ());
        let all_fail = matrix.cells.iter().all(|cell| matches!(cell.outcome, Outcome::Failed(_)));
        assert!(all_fail, "{matrix}");
    }
}

#[test]
fn different_behaviour_fails_its_cells() {
    for way in ["stdout", "stderr", "status", "signal", "hang"] {
        let matrix = matrix_of(way, NOTHING_KNOWN);
        let all_fail = matrix.cells.iter().all(|cell| matches!(cell.outcome, Outcome::Failed(_)));
        assert!(all_fail && matrix.cells.len() == 3, "{way}:\n{matrix}");
    }
    assert!(!matrix_of("nothing", NOTHING_KNOWN).has_failed());
}

#[test]
fn a_damaged_profile_fails_its_cell() {
    for cell in matrix_of("profile", NOTHING_KNOWN).cells {
        let has_profile = cell.interval == Interval::Everything;
        let is_found =
            matches!(&cell.outcome, Outcome::Failed(why) if why.contains("not a profile"));
        assert_eq!(is_found, has_profile, "{cell}");
    }
}

#[test]
fn known_cell_fails_if_it_passes() {
    let known =
        format!("{NOTHING_KNOWN}| p | a | i | r |\n|-|-|-|-|\n| notices | any | any | so |");
    let outcomes = |way| matrix_of(way, &known).cells.into_iter().map(|cell| cell.outcome);
    assert!(outcomes("stdout").all(|outcome| outcome == Outcome::Known));
    assert!(outcomes("nothing").all(|outcome| matches!(outcome, Outcome::Failed(_))));
}
