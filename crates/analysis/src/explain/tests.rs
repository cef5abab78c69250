//! Tests of the text about a process whose memory is known.

use super::words::with_half_width;
use super::*;
use crate::rss::{Before, half_unseen, of_areas};
use crate::suspects::Totals;
use ramson_leaks::DetectionLimit;
use ramson_process::allocators::{Allocator, Allocators, Missing};
use ramson_process::cgroup::Limit;
use ramson_process::go_memory::Collector;
use ramson_process::identify::AllocatorKind;
use ramson_process::{Details, Part};
use ramson_profile::Estimate;

const MIB: f64 = 1048576.0;

fn mib(value: f64, half_width: f64) -> Estimate {
    with_half_width(value * MIB, half_width * MIB)
}

fn allocators(name: &str, kind: AllocatorKind) -> Allocators {
    let of = |origin: &str| Allocator {
        name: name.into(),
        origin: origin.into(),
        path: origin.into(),
        variable: None,
    };
    Allocators {
        glibc: None,
        other: Some((kind, of("in the executable"))),
        settings: Vec::new(),
        version: None,
        is_32_bit: false,
        go: None,
    }
}

/// 80 of 100 MiB live in the heap, and 20 MiB elsewhere.
fn finding(leaks: Option<Leaks>, limit: Option<Limit>) -> Finding {
    let mut finding = Finding {
        pid: 42,
        object: "42".into(),
        name: "server".into(),
        rss: of_areas(100, 20, 80),
        details: Details::default(),
        variables: Vec::new(),
        ended_function: None,
        owner: None,
        extents_owner: None,
        causes: Vec::new(),
        allocators: allocators("jemalloc 5.3.0", AllocatorKind::Jemalloc),
        statistics: Err(Missing::Unreadable(AllocatorKind::Jemalloc)),
        inside: None,
        asked: None,
        live: Some(mib(80.0, 0.0)),
        limit,
        group_growth: None,
        page_tables: None,
        pins: None,
        early_ends: None,
        detached: None,
        has_sampling_ended: false,
        leaks,
        go: None,
        goroutines: None,
        advice: Vec::new(),
    };
    finding.causes = causes::causes(&finding);
    finding.advice = advice::advice(&finding);
    finding
}

fn leaks(undecided: f64, growing: &[&str]) -> Leaks {
    let stack = |name: &&str| Growing {
        frames: vec![format!("{name}:50"), "serve:12".into(), "main:1".into()],
        live: mib(30.0, 3.0),
        bytes_per_hour: Some(mib(6.0, 1.0)),
        reason: "nothing allocated here in 11 min has been freed".into(),
    };
    Leaks {
        stacks: 9,
        growing: growing.iter().map(stack).collect(),
        undecided: mib(undecided, 0.0),
        limit: DetectionLimit::of(600_000_000_000, 512 << 10, [], 60_000_000_000),
        totals: Totals::default(),
    }
}

/// 40 MiB live, and 50 that are not collected, of a Go program.
fn of_go(percent: i32, limit: Option<u64>, group: Option<Limit>) -> Finding {
    let mut finding = finding(None, group);
    let explained = &mut finding.rss.explained;
    explained.transfer(Part::Live, Part::GoLive, 40 << 20);
    explained.transfer(Part::Live, Part::GoUncollected, 40 << 20);
    explained.transfer(Part::Anonymous, Part::GoUncollected, 10 << 20);
    finding.go = Some(Collector {
        version: "go1.26.8".into(),
        percent,
        limit,
        live: 40 << 20,
        in_use: 90 << 20,
        released: 0,
        goal: (percent >= 0).then_some(80 << 20),
        collections: 7,
        forced: 0,
        last_unix_ns: 0,
        assist_ns: None,
        interval: 512 << 10,
    });
    finding.causes = causes::causes(&finding);
    finding.advice = advice::advice(&finding);
    finding
}

fn saves(finding: &Finding, cause: &str) -> Option<u64> {
    let advice = finding.advice.iter().find(|advice| advice.cause == cause)?;
    Some(advice.saving.map_or(0, |saving| saving.bytes) >> 20)
}

#[test]
fn go_settings_say_when_garbage_goes() {
    let garbage = |percent, limit: Option<u64>| {
        let finding = of_go(percent, limit, None);
        let is_it = |cause: &&Cause| cause.cause == "go_not_collected";
        let sentence = finding.causes.iter().find(is_it).unwrap().sentence.clone();
        (sentence.rsplit_once(": ").unwrap().1.to_owned(), saves(&finding, "go_garbage"))
    };
    let (pace, saved) = garbage(100, None);
    assert_eq!(pace, "GOGC=100 lets the heap grow to 80.0 MiB before a collection ends.");
    // With 50, 20 MiB of garbage beside 40 that are live.
    assert_eq!(saved, Some(30));
    let (pace, saved) = garbage(-1, None);
    assert_eq!(pace, "GOGC is off and there is no GOMEMLIMIT, so nothing collects them.");
    assert_eq!(saved, Some(10));
    let (pace, saved) = garbage(-1, Some(512 << 20));
    assert!(pace.ends_with("comes near GOMEMLIMIT (512 MiB)."), "{pace}");
    assert_eq!(saved, None);
    assert_eq!(garbage(40, None).1, None);
}

#[test]
fn go_limits_are_compared_with_what_is_live() {
    assert_eq!(saves(&of_go(100, Some(44 << 20), None), "go_limit"), Some(0));
    assert_eq!(saves(&of_go(100, Some(60 << 20), None), "go_limit"), None);
    let group =
        |bytes: u64| Some(Limit { limit_bytes: bytes, used_bytes: bytes / 2, ..Limit::default() });
    let untold = "go_limit_of_group";
    assert_eq!(saves(&of_go(100, None, group(64 << 20)), untold), Some(0));
    assert_eq!(saves(&of_go(100, Some(60 << 20), group(64 << 20)), untold), None);
    assert_eq!(saves(&of_go(100, None, group(90 << 20)), untold), None);
}

#[test]
fn same_advice_for_processes_is_one() {
    let limit = || Limit {
        limit_bytes: 1000 << 20,
        used_bytes: 970 << 20,
        group: "/app".into(),
        ..Limit::default()
    };
    let with = |pid: u32, leaks| {
        let mut answer = Finding { pid, object: pid.to_string(), ..finding(leaks, Some(limit())) };
        answer.advice = advice::advice(&answer);
        Each { row: Row::default(), answer }
    };
    let growing = || Some(leaks(0.0, &["cache"]));
    let mut all = [with(42, growing()), with(43, growing()), with(44, None)];
    let found = placed(&mut all, &["tree:41".into()]);
    let of = |cause, needs| {
        let is_it = |it: &&Placed| it.advice.cause == cause && it.advice.needs == needs;
        let it = found.iter().find(is_it).unwrap();
        let pids: Vec<u32> = it.processes.iter().map(|place| place.pid).collect();
        (pids, it.advice.clone())
    };
    let (pids, restart) = of("growing", Needs::Restart);
    assert_eq!(pids, [42, 43]);
    assert!(restart.action.ends_with("ramson leaks tree:41"), "{}", restart.action);
    let alone = all[0].answer.advice.iter().find(|it| it.cause == "growing").unwrap();
    assert!(alone.action.ends_with("ramson leaks 42"), "{}", alone.action);
    assert_eq!(restart.saving.unwrap().bytes, 2 * alone.saving.unwrap().bytes);
    let (pids, leaks) = of("leaks", Needs::Command);
    assert_eq!(pids, [44]);
    assert!(leaks.action.contains("ramson leaks 44"), "{}", leaks.action);
}

/// The suspects leak 12 MiB/h, and all that is live grows by 90 MiB/h: the queue of the server grows, too.
#[test]
fn earliest_growth_meets_limit() {
    let limit = Limit {
        limit_bytes: 1000 << 20,
        used_bytes: 970 << 20,
        group: "/app".into(),
        ..Limit::default()
    };
    let of = |live_per_hour, growing: &[&str]| {
        let totals = Totals { live_per_hour, ..Totals::default() };
        finding(Some(Leaks { totals, ..leaks(0.0, growing) }), Some(limit.clone()))
    };
    let restart = |found: &Finding| {
        let is_it = |advice: &&Advice| advice.needs == Needs::Restart && advice.cause == "growing";
        let advice = found.advice.iter().find(is_it).unwrap();
        (advice.action.clone(), advice.evidence.clone())
    };
    let (action, _) = restart(&of(None, &["open_session", "cache"]));
    assert!(action.contains("is reached, in 2.5 h"), "{action}");
    for growing in [&["open_session", "cache"][..], &[]] {
        let found = of(Some(mib(90.0, 5.0)), growing);
        let (action, evidence) = restart(&found);
        assert!(action.contains("is reached, in 20 min (19 min to 21 min)"), "{action}");
        assert!(evidence.starts_with("live memory as a whole grows by 90.0 MiB/h"), "{evidence}");
    }
    let found = of(Some(mib(90.0, 5.0)), &[]);
    let live = sentences(&found)[0];
    assert!(live.ends_with("Live memory as a whole grows by 90.0 MiB/h (±5.00 MiB)."), "{live}");
}

fn sentences(finding: &Finding) -> Vec<&str> {
    finding.causes.iter().map(|cause| cause.sentence.as_str()).collect()
}

#[test]
fn causes_are_sentences_largest_first() {
    let found = finding(Some(leaks(0.0, &["open_session", "cache"])), None);
    assert_eq!(
        sentences(&found)[..3],
        [
            "60.0 MiB (±4.24 MiB; 50.0%) is live and growing by 12.0 MiB/h (±1.41 MiB), allocated by open_session:50 ← \
             serve:12 and 1 more call site. Nothing allocated here in 11 min has been freed.",
            "20.0 MiB (16.7%) more is live: the program has not freed it. It is not known to grow.",
            "20.0 MiB (16.7%) is held by malloc beyond the live blocks. Only malloc \
             knows how much of it is free: ramson explain --ask 42.",
        ]
    );
    // Before the rest of what is live, also where that is more.
    let found = finding(Some(leaks(0.0, &["open_session"])), None);
    let [growing, rest, ..] = sentences(&found)[..] else { panic!("{:?}", sentences(&found)) };
    assert!(growing.contains(" is live and growing by "), "{growing}");
    assert!(rest.starts_with("50.0 MiB (41.7%) more is live: "), "{rest}");
    for (of, words) in [
        (None, "Whether it grows is not known without a profile."),
        (
            Some(leaks(10.0, &[])),
            "No leak was found; a leak of 303 MiB/h over all 10 min would show, a smaller or later one may not yet (interval 512 KiB).",
        ),
        (
            Some(Leaks { limit: None, ..leaks(10.0, &[]) }),
            "Whether it grows is not known: the recording is too short, or samples were lost.",
        ),
        (Some(leaks(70.0, &[])), "It is too early to tell whether it grows."),
    ] {
        let found = finding(of, None);
        let live = "80.0 MiB (66.7%) is live: the program has not freed it. ";
        assert_eq!(sentences(&found)[0], live.to_owned() + words);
    }
}

/// The interpreter's memory and the allocator's free memory cannot be told apart.
#[test]
fn owner_of_undivided_memory_is_no_certainty() {
    let mut found = finding(None, None);
    found.rss = of_areas(10, 110, 5);
    found.rss.allocator = "jemalloc".into();
    let other = |found: &Finding| {
        let causes = causes::causes(found);
        causes.into_iter().find(|cause| cause.cause == "other").unwrap().sentence
    };
    let words = " jemalloc's free memory and metadata. Only jemalloc knows how much of it is free: \
                 ramson explain --ask 42.";
    let start = "110 MiB (91.7%) is anonymous memory";
    assert_eq!(other(&found), format!("{start}, which may include{words}"));
    found.owner = Some("Ruby's heap pages".into());
    assert_eq!(other(&found), format!("{start}: Ruby's heap pages or{words}"));
}

#[test]
fn leaks_are_advised_before_free_memory() {
    let limit = |left: u64| {
        let limit_bytes = 200 << 20;
        Some(Limit {
            limit_bytes,
            used_bytes: limit_bytes - (left << 20),
            group: "/a".to_owned(),
            ..Limit::default()
        })
    };
    let order = |finding: &Finding| -> Vec<(&'static str, Needs)> {
        finding.advice.iter().map(|advice| (advice.cause, advice.needs)).collect()
    };
    let growing = || Some(leaks(0.0, &["open_session", "cache"]));
    let found = finding(growing(), limit(60));
    assert_eq!(
        order(&found),
        [("growing", Needs::Restart), ("ask", Needs::Command), ("growing", Needs::Code)]
    );
    let action = "restart it before its memory limit is reached, in 5.0 h (4.5 h to 5.7 h); until then, watch it: ramson leaks 42";
    assert_eq!(found.advice[0].action, action);
    assert_eq!(
        found.advice[2].action,
        "free what open_session:50 ← serve:12 allocates, or bound it"
    );
    // The kernel is about to kill it.
    assert_eq!(order(&finding(growing(), limit(10)))[0], ("limit", Needs::Command));
    // Without growth, it is worth a look.
    assert_eq!(
        order(&finding(Some(leaks(0.0, &[])), limit(60))).last(),
        Some(&("leaks", Needs::Command))
    );
}

/// The same of a process whose jemalloc was asked.
fn asked(kind: AllocatorKind) -> Finding {
    let figures = Figures {
        function: "mallctl",
        figures: Vec::new(),
        parts: Vec::new(),
        tid: 42,
        thread: String::new(),
        stopped: std::time::Duration::ZERO,
    };
    Finding {
        allocators: allocators("jemalloc", kind),
        statistics: Err(Missing::Unreadable(kind)),
        asked: Some(Ok(figures)),
        ..finding(None, None)
    }
}

#[test]
fn little_beside_what_a_trim_returns_is_not_pinned() {
    let is_much = |pinned_mib: i64, returned_mib: u64| {
        let mut rss = of_areas(200, 20, 0);
        rss.explained.transfer(Part::Anonymous, Part::FreeChunks, pinned_mib << 20);
        rss.releasable = Some(returned_mib << 20);
        pins::is_much_pinned(&rss)
    };
    assert!(is_much(20, 0) && is_much(20, 80));
    assert!(!is_much(20, 100) && !is_much(10, 0));
}

#[test]
fn trim_of_asked_allocator_is_no_guess() {
    let mut found = asked(AllocatorKind::Jemalloc);
    found.rss.explained.transfer(Part::Anonymous, Part::FreePages, 20 << 20);
    let advice = advice::advice(&found);
    let trim = advice.iter().find(|advice| advice.action.starts_with("trim now")).unwrap();
    assert!(!trim.risk.contains("not known"), "{}", trim.risk);
    assert!(trim.risk.contains("one thread is stopped meanwhile"), "{}", trim.risk);
}

#[test]
fn only_redis_with_jemalloc_is_defragmented() {
    let action = |name: &str, kind: AllocatorKind| {
        let mut found = asked(kind);
        found.name = name.into();
        found.rss.explained.transfer(Part::Anonymous, Part::FreeChunks, 20 << 20);
        let advice = advice::advice(&found);
        advice.into_iter().find(|advice| advice.cause == "scattered").unwrap()
    };
    let own = action("redis-server", AllocatorKind::InProgram);
    assert!(
        own.needs == Needs::Command
            && own.action.ends_with("redis-cli CONFIG SET activedefrag yes")
    );
    for other in [
        action("redis-server", AllocatorKind::Jemalloc),
        action("server", AllocatorKind::InProgram),
    ] {
        assert!(
            other.needs == Needs::Restart && other.action.starts_with("restart it"),
            "{other:?}"
        );
    }
}

#[test]
fn memory_held_at_attach_saves_nothing() {
    let mut found = finding(Some(leaks(0.0, &[])), None);
    found.rss = found.rss.since(Some(Before::Attach));
    let causes = causes::causes(&found);
    let advice = advice::advice(&found);
    let held = causes.iter().find(|cause| cause.cause == "held").unwrap();
    assert!(!held.sentence.contains("beyond the live blocks"), "{}", held.sentence);
    assert!(held.sentence.contains("ramson explain --ask 42"), "{}", held.sentence);
    assert_eq!(advice[0].cause, "ask");
    assert!(advice.iter().all(|advice| advice.saving.is_none()));
    // mimalloc has no function that tells.
    found.statistics = Err(Missing::Unreadable(AllocatorKind::Mimalloc));
    assert!(advice::advice(&found).iter().all(|advice| advice.saving.is_none()));
}

#[test]
fn memory_mapped_before_attach_lacks_stacks() {
    let mut found = finding(None, None);
    found.statistics = Ok(ramson_process::glibc::Statistics::default());
    let mut action = |before, extents_mib: i64| {
        found.rss = of_areas(0, 120, 0).since(before);
        found.rss.explained.transfer(Part::Anonymous, Part::Extents, extents_mib << 20);
        let advice = advice::advice(&found);
        advice.into_iter().find(|advice| advice.cause == "mmaps").unwrap()
    };
    let recorded = action(None, 1);
    assert_eq!(recorded.action, "see what mapped it: ramson report 42 --kind mmap");
    // A run time's own heap, such as V8's.
    let unrecorded = action(None, 0);
    assert_eq!(unrecorded.needs, Needs::Command);
    assert!(!unrecorded.action.contains("ramson report"), "{}", unrecorded.action);
    let attached = action(Some(Before::Attach), 0);
    assert_eq!(attached.needs, Needs::Restart);
    assert!(attached.action.contains("ramson run -- COMMAND"), "{}", attached.action);
}

#[test]
fn chance_is_no_unseen_memory() {
    for (live_mib, end) in [
        (95.0, "own count, beyond the estimate and within its error."),
        (50.0, "no stack is known."),
    ] {
        let mut found = finding(None, None);
        found.rss = half_unseen(100.0, live_mib, 8.0, Before::Attach);
        found.rss.before = None;
        let causes = causes::causes(&found);
        let unseen = causes.iter().find(|cause| cause.cause == "unseen").unwrap();
        assert!(unseen.sentence.ends_with(end), "{}", unseen.sentence);
    }
}

#[test]
fn memory_live_before_attach_has_interval() {
    for (before, parent, words, end) in [
        (Before::Attach, None, "allocated before the attach or", "no stack is known."),
        (Before::Fork, None, "inherited from its parent or", "no stack is known."),
        (
            Before::Fork,
            Some(7),
            "inherited from its parent or",
            "ramson report 7 names what the parent allocated.",
        ),
    ] {
        let mut found = finding(None, None);
        found.rss = half_unseen(200.0, 100.0, 10.0, before);
        found.rss.parent = parent;
        let causes = causes::causes(&found);
        let unseen = causes.iter().find(|cause| cause.cause == "unseen").unwrap();
        let start = format!("100 MiB (±10.0 MiB; 50.0%) is live, but was {words}");
        assert!(unseen.sentence.starts_with(&start), "{}", unseen.sentence);
        assert!(unseen.sentence.ends_with(end), "{}", unseen.sentence);
    }
}

#[test]
fn growth_is_unknown_after_sampling_ended() {
    let mut found = finding(None, None);
    found.has_sampling_ended = true;
    let live = causes::causes(&found).remove(0).sentence;
    assert!(live.ends_with("Whether it grows is not known: sampling has ended."), "{live}");
}

#[test]
fn frees_are_unknown_after_detach() {
    let mut found = finding(None, None);
    found.has_sampling_ended = true;
    found.detached = Some("detached 3 s ago: live memory is shown as it was then".into());
    let live = causes::causes(&found).remove(0).sentence;
    let expected =
        "80.0 MiB (66.7%) was live at the detach: what the program has freed since is not known.";
    assert_eq!(live, expected);
    let evidence = advice::advice(&found).into_iter().find(|it| it.cause == "leaks").unwrap();
    assert_eq!(evidence.evidence, "80.0 MiB (66.7%) of RSS was live at the detach");
}
