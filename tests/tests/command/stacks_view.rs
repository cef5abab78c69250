//! The first screen of a report: which of the program's own functions have the memory, since when, and where to look next.

use ramson_tests::servers::*;
use std::path::{Path, PathBuf};
use std::process::Command;

fn say(scratch: &Scratch, arguments: &[&str]) -> Outcome {
    finish(ramson(scratch).args(arguments))
}

/// A C++ program, built here, that holds 500 strings of 1,000 bytes by acme::load and a buffer of 90,000 bytes that
/// acme::open_session allocates by a wrapper of its own, then dies.
fn recorded(scratch: &Scratch) -> PathBuf {
    let source = "#include <csignal>\n#include <cstdlib>\n#include <string>\n#include <vector>\n\
         void *volatile kept;\n\
         extern \"C\" __attribute__((noinline)) void *xmalloc(size_t size) { return malloc(size); }\n\
         __attribute__((noinline)) void *pool_get(size_t size) { return xmalloc(size); }\n\
         namespace acme {\n\
         std::vector<std::string> catalog;\n\
         __attribute__((noinline)) void load() {\n\
           for (int i = 0; i < 500; i++) catalog.push_back(std::string(1000, 'c'));\n}\n\
         __attribute__((noinline)) void open_session() { kept = pool_get(90000); }\n}\n\
         int main() { acme::load(); acme::open_session(); raise(SIGKILL); }\n";
    let file = scratch.file("acme.cc", source);
    let program = scratch.path("acme");
    let flags = ["-g", "-O1", "-fno-optimize-sibling-calls", "-o"];
    finish(clean(installed("g++", "g++")).args(flags).arg(&program).arg(&file)).good();
    let path = scratch.path("acme.ramson");
    let run = ["run", "--interval", "1", "-o", path.to_str().unwrap(), "--"];
    say(scratch, &[&run[..], &[program.to_str().unwrap()]].concat());
    path
}

/// The innermost frames, with what each stack holds.
fn leaves(scratch: &Scratch, path: &Path, more: &[&str]) -> Vec<(String, f64)> {
    let arguments = [&["report", path.to_str().unwrap(), "--json", "-n", "0"], more].concat();
    let report = Json::parse(&say(scratch, &arguments).good().text());
    let leaf = |row: &Json| {
        let name = row.list("frames")[0].text("function").to_owned();
        (name, row.number("value.value"))
    };
    report.list("rows").iter().map(leaf).collect()
}

#[test]
fn libraries_and_wrappers_count_for_callers() {
    let scratch = Scratch::new();
    let path = recorded(&scratch);
    let own = leaves(&scratch, &path, &[]);
    let names: Vec<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..2], ["acme::load()", "pool_get(unsigned long)"], "{own:?}");
    assert!((500_500.0..600_000.0).contains(&own[0].1), "the strings and their table: {own:?}");
    // 90,000 requested bytes, which glibc rounds up.
    assert_eq!(own[1].1, 90_008.0);
    let wrapped = leaves(&scratch, &path, &["--wrapper", "^pool_"]);
    assert!(wrapped.contains(&("acme::open_session()".into(), 90_008.0)), "{wrapped:?}");
    let of_library = leaves(&scratch, &path, &["--library", "^pool_|^acme::"]);
    assert!(of_library.iter().all(|(name, _)| !name.starts_with("acme::")), "{of_library:?}");
    let all = leaves(&scratch, &path, &["--all-frames"]);
    assert!(all.iter().any(|(name, _)| name.contains("std::")), "{all:?}");
    assert!(all.contains(&("xmalloc".into(), 90_008.0)), "{all:?}");
    let sum = |rows: &[(String, f64)]| rows.iter().map(|row| row.1).sum::<f64>();
    assert_eq!([sum(&wrapped), sum(&all)], [sum(&own); 2], "nothing is lost or counted twice");
}

#[test]
fn first_rows_name_function_and_callers() {
    let scratch = Scratch::new();
    let path = recorded(&scratch);
    let shown = say(&scratch, &["report", path.to_str().unwrap()]).good().text();
    let below = shown.split_once("allocated by\n").unwrap_or_else(|| panic!("{shown}")).1;
    let first = below.lines().next().unwrap();
    assert!(first.contains("acme::load  acme.cc:11 ← main:15"), "{shown}");
    let details = say(&scratch, &["report", path.to_str().unwrap(), "--details"]).good().text();
    assert!(details.contains("library frames are attributed to their callers"), "{details}");
    let more = say(&scratch, &["report", path.to_str().unwrap(), "-n", "1"]).good().text();
    assert!(more.lines().last().unwrap().contains("in other stacks; -n 0 shows all"), "{more}");
    let refused = say(&scratch, &["report", "1", "--all-frames", "--library", "x"]);
    assert_eq!(refused.status, 2, "{}", refused.text());
}

/// Twenty functions allocate the same by one other.
#[test]
fn equal_stacks_point_to_functions() {
    let scratch = Scratch::new();
    let each = |function: usize| {
        format!(
            "__attribute__((noinline)) void f{function}() {{ kept[{function}] = get(5000); asm(\"\"); }}\n"
        )
    };
    let functions: String = (0..20).map(each).collect();
    let calls: String = (0..20).map(|function| format!("f{function}(); ")).collect();
    let source = format!(
        "#include <csignal>\n#include <cstdlib>\nvoid *volatile kept[20];\n\
         __attribute__((noinline)) void *get(size_t size) {{ return malloc(size); }}\n\
         {functions}int main() {{ {calls} raise(SIGKILL); }}\n"
    );
    let program = scratch.path("flat");
    let flags = ["-g", "-O1", "-fno-optimize-sibling-calls", "-o"];
    let file = scratch.file("flat.cc", &source);
    finish(clean(installed("g++", "g++")).args(flags).arg(&program).arg(&file)).good();
    let path = scratch.path("flat.ramson").display().to_string();
    let run = ["run", "--interval", "1", "-o", &path, "--", program.to_str().unwrap()];
    say(&scratch, &run);
    let pointer = format!("ramson report {path} --view functions --sort total adds them up");
    let shown = say(&scratch, &["report", &path, "--all-frames"]).good().text();
    assert!(shown.trim_end().ends_with(&pointer), "{shown}");
    // With all that is in the first row, there is nothing to add up.
    let one = say(&scratch, &["report", &recorded(&scratch).display().to_string()]).good().text();
    assert!(!one.contains("--view functions"), "{one}");
}

#[test]
fn unprofiled_process_shows_rss_and_advice() {
    let scratch = Scratch::new();
    let sleeper = Running(Command::new("sleep").arg("1000").spawn().unwrap());
    let pid = sleeper.0.id().to_string();
    for command in ["report", "leaks"] {
        let outcome = say(&scratch, &[command, &pid]);
        assert_eq!(outcome.status, 5);
        let shown = outcome.text();
        let start = format!("sleep (pid {pid}), not recorded; allocator glibc");
        assert!(shown.starts_with(&start), "{shown}");
        assert!(shown.contains(": RSS ") && shown.contains("code and data"), "{shown}");
        assert!(outcome.remarks.iter().any(|line| line.contains("ramson run -- CMD")));
    }
    let exported = say(&scratch, &["export", &pid, "-f", "collapsed"]);
    assert_eq!((exported.status, exported.text().as_str()), (5, ""));
}

#[test]
fn leak_without_symbols_says_how_to_go_on() {
    let scratch = Scratch::new();
    let source = "#include <stdlib.h>\n#include <unistd.h>\n\
         int main(void) { for (;;) { if (!malloc(4000)) return 1; usleep(500); } }\n";
    let program = scratch.path("stripped");
    let file = scratch.file("stripped.c", source);
    finish(clean(installed("gcc", "gcc")).args(["-O1", "-s", "-o"]).arg(&program).arg(&file))
        .good();
    let mut command = ramson(&scratch);
    command.args(["run", "--interval", "4K", "--"]).arg(&program);
    let running = Running::start(&mut command, &scratch.path("log"), || true);
    let leaks = || say(&scratch, &["leaks", "name:stripped", "--min-age", "1s"]).text();
    wait_until("the leak is found", || leaks().starts_with("1 leak suspect"));
    let text = leaks();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let pid = profiles(&scratch).remove(0).header.pid;
    let expected = format!(
        "stripped has no symbols: install them (NAME-dbgsym) or pass --debuginfod. Callers with names: ramson report {pid} --view functions --sort total"
    );
    assert!(words.contains(&expected), "{text}");
    drop(running);
}
