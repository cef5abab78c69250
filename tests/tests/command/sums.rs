//! Profiles of many processes when RAMSON_DIR has no room for each: it keeps the newest, the largest, and sums.

use ramson_reader::Snapshot;
use ramson_tests::deaths::say;
use ramson_tests::servers::*;
use ramson_tests::{profiles_in, program, read};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Live blocks of each child of `brood.c`, of 1,000 bytes each.
const LIVE_BLOCKS: f64 = 100.0;

/// Runs `brood` with every allocation recorded, in a directory of this size.
fn run(scratch: &Scratch, arguments: &[&str], size: &str) -> Outcome {
    let mut command = ramson(scratch);
    command.env("RAMSON_PRUNE_SIZE", size).args(["run", "--interval", "1", "--"]);
    finish(command.arg(program("brood.c")).args(arguments))
}

fn is_sum(path: &Path) -> bool {
    path.file_name().unwrap().to_str().unwrap().starts_with("sum-")
}

fn bytes_on_disk(paths: &[PathBuf]) -> u64 {
    paths.iter().map(|path| fs::metadata(path).unwrap().blocks() * 512).sum()
}

/// Processes, allocations and frees, and what was live.
fn totals<'a>(snapshots: impl IntoIterator<Item = &'a Snapshot>) -> ([u64; 3], f64) {
    let mut counts = [0; 3];
    let mut live = 0.0;
    for snapshot in snapshots {
        counts[0] += snapshot.header.processes.max(1);
        for stack in &snapshot.stacks {
            counts[1] += stack.sampled_alloc_objects;
            counts[2] += stack.sampled_freed_objects;
        }
        live += snapshot.live.iter().map(|sample| sample.inverse_probability).sum::<f64>();
    }
    (counts, live)
}

fn read_all(paths: &[PathBuf]) -> Vec<Snapshot> {
    paths.iter().map(|path| read(path).unwrap()).collect()
}

#[test]
fn many_children_stay_within_limit() {
    const CHILDREN: u64 = 1500;
    const LIMIT: u64 = 8 << 20;
    let few = Scratch::new();
    run(&few, &["3", "3"], "off").good();
    let few = read_all(&profiles_in(&few.path("profiles")));
    let parent = few.iter().max_by_key(|snapshot| snapshot.live.len()).unwrap();
    let ([_, allocated, freed], live) = totals([parent]);
    let ([_, all_allocated, all_freed], all_live) = totals(&few);
    let of_child = [(all_allocated - allocated) / 3, (all_freed - freed) / 3];
    assert_eq!(((all_live - live) / 3.0, few.len()), (LIVE_BLOCKS, 4));

    let scratch = Scratch::new();
    // Its status tells whether the directory was ever beyond the limit for long.
    let said = run(&scratch, &[&CHILDREN.to_string(), "50", &LIMIT.to_string()], "8M").good();
    let said = said.remarks.join("\n");
    assert!(said.contains(" profiles of ended processes were summed"), "{said}");
    let left = profiles_in(&scratch.path("profiles"));
    assert!(bytes_on_disk(&left) <= LIMIT, "{left:?}");
    let snapshots = read_all(&left);
    assert!(snapshots.iter().all(|snapshot| snapshot.defects.is_empty()), "{left:?}");
    // The program's own profile is there as it would be without the others.
    let own = snapshots.iter().find(|it| it.live.len() == parent.live.len()).unwrap();
    assert_eq!(totals([own]).1, live);
    let ([_, allocated, freed], _) = totals([own]);
    let (counts, all_live) = totals(&snapshots);
    let expected = [allocated + CHILDREN * of_child[0], freed + CHILDREN * of_child[1]];
    assert_eq!(counts, [1 + CHILDREN, expected[0], expected[1]]);
    // Live samples that the sum kept stand for those that it dropped.
    let samples = snapshots.iter().flat_map(|snapshot| &snapshot.live);
    let variance: f64 =
        samples.map(|it| it.inverse_probability * (it.inverse_probability - 1.0)).sum();
    let expected = live + CHILDREN as f64 * LIVE_BLOCKS;
    assert!((all_live - expected).abs() <= 6.0 * variance.sqrt(), "{all_live} of {expected}");

    let [sum] = &left.into_iter().filter(|path| is_sum(path)).collect::<Vec<_>>()[..] else {
        panic!("one command line, one sum")
    };
    let sum = sum.to_str().unwrap();
    let summed = read(Path::new(sum)).unwrap().header.processes;
    let report = say(&scratch, &["report", sum]);
    assert!(report.contains("site_child") && report.contains(", sum of "), "{report}");
    assert!(say(&scratch, &["leaks", sum, "--min-age", "1ms"]).contains("site_child"));
    assert!(say(&scratch, &["export", sum, "-f", "collapsed"]).contains("main;site_child"));
    let listed = Json::parse(&say(&scratch, &["list", "--json", sum]));
    assert_eq!(listed.list("profiles")[0].number("sum_of") as u64, summed);
}

/// Profiles of ended processes, copied to a place of their own, which `list --prune` summed, and their sum.
fn summed(scratch: &Scratch) -> (Vec<PathBuf>, PathBuf) {
    run(scratch, &["30", "30"], "off").good();
    let all = profiles_in(&scratch.path("profiles"));
    let copies = scratch.open_directory("copies");
    let copied = all.iter().map(|path| {
        let copy = copies.join(path.file_name().unwrap());
        fs::copy(path, &copy).unwrap();
        (path, copy)
    });
    let copied: Vec<_> = copied.collect();
    let room = bytes_on_disk(&all) / 2;
    say(scratch, &["list", "--prune", "--max-total", &room.to_string()]);
    let gone = copied.into_iter().filter(|(path, _)| !path.exists()).map(|(_, copy)| copy);
    let left = profiles_in(&scratch.path("profiles"));
    assert!(bytes_on_disk(&left) <= room, "{left:?}");
    let [sum] =
        left.into_iter().filter(|path| is_sum(path)).collect::<Vec<_>>().try_into().unwrap();
    (gone.collect(), sum)
}

#[test]
fn large_block_keeps_its_profile() {
    let scratch = Scratch::new();
    let mut command = ramson(&scratch);
    command.env("RAMSON_PRUNE_SIZE", "off");
    // 4 blocks of 300 kB; each of the others has more blocks, of 100 kB together.
    command.args(["run", "--interval", "1", "--"]).arg(program("deaths.c")).arg("exit");
    finish(&mut command);
    run(&scratch, &["40", "1"], "off").good();
    let directory = scratch.path("profiles");
    let room = bytes_on_disk(&profiles_in(&directory)) / 2;
    say(&scratch, &["list", "--prune", "--max-total", &room.to_string()]);
    let left = read_all(&profiles_in(&directory));
    assert!(left.iter().any(|it| it.header.processes > 1), "nothing was summed");
    let largest = left.iter().filter(|it| it.header.exe.ends_with("/deaths"));
    assert_eq!(largest.map(|it| it.header.processes).collect::<Vec<_>>(), [0]);
}

#[test]
fn interrupted_sum_counts_once() {
    let scratch = Scratch::new();
    let (singles, sum) = summed(&scratch);
    let directory = scratch.path("profiles");
    let left = profiles_in(&directory);
    let totals_there = || totals(&read_all(&profiles_in(&directory))).0;
    let others = left.iter().filter(|path| **path != sum);
    let all: Vec<PathBuf> = singles.iter().chain(others).cloned().collect();
    let expected = totals(&read_all(&all)).0;
    assert_eq!(totals_there(), expected);
    let whole = directory.join(format!("{}.whole", sum.file_name().unwrap().to_str().unwrap()));
    let put_aside = || {
        for single in &singles {
            let name = single.file_name().unwrap().to_str().unwrap();
            fs::copy(single, directory.join(format!("{name}.summed"))).unwrap();
        }
    };
    // It died before it had removed what is in the sum.
    fs::rename(&sum, &whole).unwrap();
    put_aside();
    say(&scratch, &["list", "--prune"]);
    assert_eq!(profiles_in(&directory), left);
    assert_eq!(totals_there(), expected);
    // It died before the sum was whole.
    fs::remove_file(&sum).unwrap();
    put_aside();
    let partial = format!("{}.7.partial", whole.display());
    fs::write(&partial, "half of it").unwrap();
    say(&scratch, &["list", "--prune"]);
    assert_eq!(profiles_in(&directory).len(), all.len());
    assert_eq!(totals_there(), expected);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), all.len(), "{partial}");
}

#[test]
fn long_list_needs_few_syscalls() {
    const FILES: u64 = 1000;
    const MOST_CALLS: u64 = 20;
    let scratch = Scratch::new();
    run(&scratch, &["1", "1"], "off").good();
    let [one, _] = profiles_in(&scratch.path("profiles")).try_into().unwrap();
    let content = fs::read(&one).unwrap();
    // As the library makes it; where others may put files, more care is taken with each.
    let directory = scratch.path("private");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
    let calls = scratch.path("calls");
    let count = || {
        let own = ramson(&scratch);
        let mut command = clean(installed("strace", "strace"));
        command.args(["-f", "-c", "-o"]).arg(&calls).arg(own.get_program()).arg("list");
        for (name, value) in own.get_envs() {
            value.map(|value| command.env(name, value));
        }
        finish(command.env("RAMSON_DIR", &directory)).good();
        let table = fs::read_to_string(&calls).unwrap();
        let total = table.lines().find(|line| line.ends_with(" total")).unwrap();
        total.split_whitespace().nth(3).unwrap().parse::<u64>().unwrap()
    };
    let before = count();
    for number in 0..FILES {
        fs::write(directory.join(format!("{number}-1.ramson")), &content).unwrap();
    }
    let begin = Instant::now();
    let mut command = ramson(&scratch);
    let listed = finish(command.env("RAMSON_DIR", &directory).args(["list", "--json"])).good();
    println!("{FILES} files in {:?}", begin.elapsed());
    let listed = Json::parse(&listed.text());
    let prefix = directory.to_str().unwrap();
    let of_ours = listed.list("profiles").iter().filter(|it| it.text("profile").contains(prefix));
    assert_eq!(of_ours.count() as u64, FILES);
    // Other processes of the machine come and go meanwhile.
    let calls = count().saturating_sub(before);
    assert!(calls <= FILES * MOST_CALLS, "{calls} system calls");
}
