use super::super::answer::{Answer, Circumstances};
use super::super::groups::groups;
use super::super::totals::Totals;
use super::*;
use ramson_leaks::{LiveBlock, Verdict};
use ramson_profile::Language;

const SECOND: u64 = 1_000_000_000;

fn stack(frames: &[(&str, u32)], ages_s: impl Iterator<Item = u64>) -> NamedStack {
    let frame =
        |&(name, line): &(&str, u32)| FrameName { name: name.into(), line, ..FrameName::default() };
    let block = |age_s| LiveBlock::new((1000 - age_s) * SECOND, 100, 5000.0);
    let live = ages_s.map(block).collect();
    let history = StackHistory { now_ns: 1000 * SECOND, live, ..StackHistory::default() };
    NamedStack { frames: frames.iter().map(frame).collect(), history }
}

fn found(stacks: Vec<NamedStack>) -> Vec<Suspect> {
    let live = stacks.iter().map(|stack| stack.history.inuse(SampleUnit::Bytes)).sum();
    let unix_ns = 1_800_000_000 * SECOND;
    judged(stacks, 60 * SECOND, &Moment { live, unix_ns, is_running: true })
}

#[test]
fn lines_of_one_leak_are_grouped() {
    let open = |line, caller: u32, first| {
        let frames = [("open_session", line), ("serve", caller)];
        stack(&frames, (first..1000).step_by(30))
    };
    let stacks = vec![
        open(50, 9, 1),
        open(50, 8, 3),
        open(49, 9, 7),
        open(52, 9, 11),
        stack(&[("load", 3), ("main", 1)], 900..1000),
    ];
    let found = found(stacks);
    assert_eq!(found.len(), 2);
    let leak = found.iter().find(|it| &*it.function.name == "open_session").unwrap();
    assert_eq!(leak.finding.verdict, Verdict::Growing);
    let lines: Vec<_> = leak.lines.iter().map(|line| (line.line, line.samples)).collect();
    assert_eq!(lines, [(50, 68), (49, 34), (52, 33)]);
    assert_eq!((leak.stacks, leak.keys.len(), leak.finding.samples), (4, 1, 135));
    assert!((leak.share - 135.0 / 235.0).abs() < 1e-9);
    assert_eq!(leak.first_seen_unix_ns, (1_800_000_000 - 1000) * SECOND);
    assert!(leak.growing_since_unix_ns >= Some(leak.first_seen_unix_ns));
}

#[test]
fn leaks_below_one_caller_are_grouped() {
    let of = |path: &[&str], first, step| {
        let frames: Vec<(&str, u32)> = path.iter().map(|&name| (name, 1)).collect();
        stack(&frames, (first..1000).step_by(step))
    };
    let mut found = found(vec![
        of(&["open", "serve", "main"], 1, 8),
        of(&["buffer", "open", "serve", "main"], 3, 8),
        of(&["node", "insert", "open", "serve", "main"], 5, 8),
        of(&["log", "serve", "main"], 7, 8),
        of(&["watch", "main"], 9, 8),
    ]);
    found.sort_by(|a, b| a.function.name.cmp(&b.function.name));
    assert!(found.iter().all(|it| it.finding.verdict == Verdict::Growing));
    let groups = groups(&found);
    assert_eq!(groups.len(), 1, "{groups:?}");
    assert_eq!(&*groups[0].caller.name, "open");
    let names: Vec<&str> = groups[0].suspects.iter().map(|&at| &*found[at].function.name).collect();
    assert_eq!(names, ["buffer", "node", "open"]);
    let growth = groups[0].suspects.iter().map(|&at| found[at].finding.growth.unwrap());
    let growth: Estimate = growth.map(|growth| growth.per_hour).sum();
    assert_eq!(groups[0].growth_per_hour, growth);
}

#[test]
fn recursion_counts_once() {
    let of = |path: &[&str], first| {
        let frames: Vec<(&str, u32)> = path.iter().map(|&name| (name, 1)).collect();
        stack(&frames, (first..1000).step_by(16))
    };
    let mut found = found(vec![
        of(&["node", "walk", "walk", "serve", "main"], 1),
        of(&["node", "read", "serve", "main"], 3),
        of(&["name", "walk", "walk", "serve", "main"], 5),
        of(&["name", "read", "serve", "main"], 7),
    ]);
    found.sort_by(|a, b| a.function.name.cmp(&b.function.name));
    let callers: Vec<String> =
        groups(&found).iter().map(|group| group.caller.name.to_string()).collect();
    assert_eq!(callers, ["serve"]);
}

#[test]
fn tables_of_other_times_stay_ungrouped() {
    let mut found = found(vec![
        stack(&[("open", 1), ("serve", 1), ("main", 1)], (1..1000).step_by(20)),
        stack(&[("late", 1), ("serve", 1), ("main", 1)], (1..250).step_by(2)),
    ]);
    found.sort_by(|a, b| a.function.name.cmp(&b.function.name));
    assert_eq!(groups(&found), []);
}

#[test]
fn parts_of_growth_add_up() {
    let open = |line, first| stack(&[("open", line), ("serve", 9)], (first..1000).step_by(30));
    let all = || {
        let table = stack(&[("load", 3), ("main", 1)], 900..1000);
        vec![open(50, 1), open(50, 3), open(49, 7), table]
    };
    let found = found(all());
    let whole = found.iter().find(|it| it.is_growing()).unwrap();
    let whole = whole.finding.growth.unwrap().per_hour;
    let parts = growth_parts(&found, &all());
    let sum: Estimate = parts.iter().copied().sum();
    assert!(whole.value > 0.0 && parts[..3].iter().all(|part| part.value > 0.0));
    assert!((sum.value / whole.value - 1.0).abs() < 1e-9, "{sum:?} {whole:?}");
    assert!((sum.variance / whole.variance - 1.0).abs() < 1e-9, "{sum:?} {whole:?}");
    assert!(parts[3].is_nothing());
}

#[test]
fn harmless_callers_are_separated() {
    let found = found(vec![
        stack(&[("copy", 5), ("remember", 1)], (0..1000).step_by(8)),
        stack(&[("copy", 5), ("load", 1)], (0..4000).map(|number| 900 + number / 40)),
    ]);
    let of = |caller: &str| found.iter().find(|it| &*it.frames[1].name == caller).unwrap();
    assert_eq!(of("remember").finding.verdict, Verdict::Growing);
    assert_eq!(of("load").finding.verdict, Verdict::BuiltOnce);
}
#[test]
fn jit_changed_paths_are_merged() {
    let of = |caller: &str, ages_s| {
        let mut stack = stack(&[("remember", 5), (caller, 1)], ages_s);
        stack.frames.iter_mut().for_each(|it| it.language = Some(Language::JavaScript));
        stack
    };
    // A steady leak, whose caller is inlined from some time on.
    let found = found(vec![of("handle", (500..1000).step_by(8)), of("next", (0..500).step_by(8))]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].finding.verdict, Verdict::Growing);
    assert_eq!((found[0].finding.samples, found[0].stacks), (126, 2));
}

/// The optimizing compiler puts the callee into its caller, and then another callee that allocates for the same caller.
#[test]
fn leak_compiled_into_caller_is_one() {
    let of = |path: &[&str], ages_s: std::iter::StepBy<std::ops::Range<u64>>| {
        let frames: Vec<(&str, u32)> = path.iter().map(|&name| (name, 1)).collect();
        let mut stack = stack(&frames, ages_s);
        stack.frames.iter_mut().for_each(|it| it.language = Some(Language::JavaScript));
        stack
    };
    let before = || of(&["keep", "handle", "listen"], (600..1000).step_by(4));
    let since = || of(&["handle", "listen"], (0..600).step_by(4));
    let found = found(vec![before(), since(), of(&["listen"], (900..1000).step_by(2))]);
    let leak = found.iter().find(|it| it.is_growing()).unwrap();
    assert_eq!((found.len(), leak.finding.samples, &*leak.function.name), (2, 250, "handle"));
    let others: Vec<&str> = leak.compiled_together.iter().map(|it| &*it.name).collect();
    assert_eq!(others, ["keep"]);
    // 5,000 times 100 bytes every 4 s.
    let growth = leak.finding.growth.unwrap().per_hour;
    assert!((growth.value / (5000.0 * 100.0 * 900.0) - 1.0).abs() < 0.05, "{growth:?}");
    // Native code stays as it was compiled.
    let native = |mut stack: NamedStack| {
        stack.frames.iter_mut().for_each(|it| it.language = None);
        stack
    };
    let found = self::found(vec![native(before()), native(since())]);
    let growing: Vec<u64> =
        found.iter().filter(|it| it.is_growing()).map(|it| it.finding.samples).collect();
    assert_eq!((found.len(), growing), (2, vec![150]));
}

#[test]
fn function_with_most_bytes_names_finding() {
    let open = |caller, ages_s: std::ops::Range<u64>| {
        stack(&[("open", 1), (caller, 1)], ages_s.step_by(9))
    };
    let found = found(vec![open("a", 0..700), open("b", 1..700), open("c", 0..990)]);
    assert_eq!(found.len(), 1);
    assert_eq!(&*found[0].frames[1].name, "c");
}

/// The largest function was allocated in one go; another one leaks.
#[test]
fn answer_waits_for_what_grows() {
    let wait_s = |now_s: u64, leak_ages_s: std::ops::Range<u64>| {
        let since_start = |mut stack: NamedStack| {
            stack.history.first_ns = (1000 - now_s) * SECOND;
            stack
        };
        let boot = stack(&[("boot", 1), ("main", 1)], [now_s - 1; 100].into_iter());
        let leak = stack(&[("leak", 1), ("main", 1)], leak_ages_s);
        let all = [boot, leak].into_iter().filter(|stack| !stack.history.live.is_empty());
        let suspects = found(all.map(since_start).collect());
        let with = Circumstances {
            limit: None,
            totals: Totals::default(),
            min_age_ns: 60 * SECOND,
            is_live_known: true,
            is_part: false,
            sampling_ended_ns: None,
        };
        let answer = Answer::of(&suspects, &Moment::default(), with);
        answer.judged_in_ns.map(|ns| ns / SECOND)
    };
    assert_eq!(wait_s(20, 0..0), Some(40), "--min-age");
    let wait = wait_s(20, 0..20);
    assert!(wait.is_some_and(|wait| (45..60).contains(&wait)), "{wait:?}");
    assert_eq!(wait_s(200, 0..0), None);
}
