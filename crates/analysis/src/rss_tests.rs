use super::*;
use ramson_process::parse_smaps;
use ramson_process::rss::{Known, explain};

const MIB: f64 = 1048576.0;

const HEAP: u64 = 0x404000;

fn explained() -> Explained {
    explained_with(&[])
}

fn explained_with(blocks: &[u64]) -> Explained {
    const SMAPS: &str = "\
404000-804000 rw-p 00000000 00:00 0                                      [heap]
Rss:                3072 kB
7f0000000000-7f0000002000 r--p 00000000 08:01 4                          /srv/data.db
Rss:                1024 kB
7f1000000000-7f1000100000 rw-p 00000000 00:00 0
Rss:                1024 kB
";
    explained_of(SMAPS, blocks)
}

fn explained_of(smaps: &str, blocks: &[u64]) -> Explained {
    let known = Known { blocks, ..Known::default() };
    explain(&parse_smaps(smaps.as_bytes()), &known)
}

/// A heap and another mapping of so many MiB, with so many live in the heap.
pub fn of_areas(heap: u64, other: u64, live: u64) -> Rss {
    let text = format!(
        "10000000-50000000 rw-p 0 00:00 0 [heap]\nRss: {} kB\n\
         7f1000000000-7f1100000000 rw-p 0 00:00 0 \nRss: {} kB\n",
        heap << 10,
        other << 10,
    );
    let explained = explained_of(&text, &[0x1000_0000]);
    Rss::divided(explained, None, Some((estimate(live as f64, 0.0), false)), &|| None, None)
}

/// RSS of a process that ran already: the allocator counts `counted` MiB as live, and the profile has `live` ± `half_width` MiB of them.
pub fn half_unseen(counted: f64, live: f64, half_width: f64, before: Before) -> Rss {
    let bytes = (counted * MIB) as u64;
    let text = format!("10000000-50000000 rw-p 0 00:00 0 [heap]\nRss: {} kB\n", bytes >> 10);
    let mut explained = explained_of(&text, &[]);
    explained.transfer(Part::Anonymous, Part::Live, bytes as i64);
    let live = Some((estimate(live, half_width), false));
    Rss::divided(explained, None, live, &|| None, None).since(Some(before))
}

fn divided(live: Option<Estimate>) -> Rss {
    Rss::divided(explained(), None, live.map(|live| (live, false)), &|| None, None)
}

fn estimate(mib: f64, half_width_mib: f64) -> Estimate {
    Estimate::new(mib * MIB, (half_width_mib * MIB / NORMAL_QUANTILE_975).powi(2))
}

#[test]
fn terms_add_up_to_rss() {
    for live in [0.0, 2.0, 3.0, 5.0] {
        let rss = divided(Some(estimate(live, 0.3)));
        let sum: f64 = Term::ALL.iter().map(|&(term, _)| rss.term(term).value).sum();
        assert_eq!(sum, 5.0 * MIB, "{live}");
    }
}

#[test]
fn line_keeps_order_and_omits_zeros() {
    let rss = divided(Some(estimate(2.0, 0.3)));
    assert_eq!(
        rss.line(),
        "RSS 5.00 MiB = live 2.0 MiB (±15%) + files 1.00 MiB + other anonymous 2.0 MiB (±15%)"
    );
    let rss = divided(None);
    assert_eq!(rss.line(), "RSS 5.00 MiB = files 1.00 MiB + other anonymous 4.00 MiB");
}

/// Returns the line for blocks that are known to lie in the heap, with none in the other mapping.
fn line_of(live: Estimate) -> String {
    let rss = Rss::divided(
        explained_with(&[HEAP]),
        None,
        Some((live, false)),
        &|| Some(Residence { resident: live, missing: Estimate::default() }),
        None,
    );
    rss.line()
}

/// The figure of live bytes is the profile's, whatever is left of the heap.
#[test]
fn remainder_is_held() {
    let after = " + files 1.00 MiB + other anonymous 1.00 MiB";
    for (live, terms) in [
        (2.0, "live 2.0 MiB (±15%) + held by malloc 1.0 MiB (±30%)"),
        (2.8, "live 2.8 MiB (±11%) + held by malloc up to 510 KiB"),
        (2.98, "live 3.0 MiB (±10%) + held by malloc up to 330 KiB"),
        // The heap has 3 MiB.
        (3.02, "live 3.02 MiB (±9.9%)"),
        (3.2, "live 3.00 MiB resident of 3.20 MiB (±9.4%)"),
    ] {
        assert_eq!(line_of(estimate(live, 0.3)), format!("RSS 5.00 MiB = {terms}{after}"));
    }
}

#[test]
fn nonresident_live_bytes_are_reported() {
    let of = |resident, missing| {
        let live = Some((estimate(8.0, 0.8), false));
        let residence = || Some(Residence { resident, missing });
        Rss::divided(explained_with(&[HEAP]), None, live, &residence, None)
    };
    let rss = of(estimate(3.0, 0.3), estimate(5.0, 0.9));
    let terms =
        "live 3.00 MiB resident of 8.00 MiB (±10%) + files 1.00 MiB + other anonymous 1.00 MiB";
    assert_eq!(rss.line(), format!("RSS 5.00 MiB = {terms}"));
}

#[test]
fn untouched_bytes_are_reported_beside_allocator() {
    let of = |live_mib: f64, resident_mib: f64| {
        let mut explained = explained_with(&[HEAP]);
        explained.transfer(Part::Held, Part::Live, 3 << 20);
        let parts = [resident_mib, live_mib - resident_mib].map(|mib| estimate(mib, 0.3));
        let residence = || Some(Residence { resident: parts[0], missing: parts[1] });
        let live = Some((estimate(live_mib, 0.3), false));
        Rss {
            calibration: Calibration::Calibrated,
            ..Rss::divided(explained, None, live, &residence, None)
        }
    };
    let terms = " + files 1.00 MiB + other anonymous 1.00 MiB";
    let words = "live 3.00 MiB resident of 9.00 MiB (±3.3%)";
    assert_eq!(of(9.0, 3.0).line(), format!("RSS 5.00 MiB = {words}{terms}"));
    assert_eq!(of(3.02, 3.0).line(), format!("RSS 5.00 MiB = live 3.02 MiB (±9.9%){terms}"));
    // Two digits are shown of 122 MiB ± 16.
    let rss = Rss { live: Some(estimate(122.0, 16.0)), ..of(3.0, 3.0) };
    let resident = |mib| {
        let mut rss = rss.clone();
        rss.terms[Term::Live as usize] = estimate(mib, 0.0);
        rss.live_words()
    };
    assert_eq!(resident(120.0), "120 MiB (±13%)");
    assert_eq!(resident(110.0), "110 MiB resident of 120 MiB (±13%)");
}

/// A total that the profile does not explain is a term of its own.
#[test]
fn unexplained_total_is_not_seen() {
    let of = |calibration, live_mib| {
        let mut explained = explained_with(&[HEAP]);
        explained.transfer(Part::Held, Part::Live, 3 << 20);
        let live = Some((estimate(live_mib, 0.3), false));
        let rss = Rss::divided(explained, None, live, &|| None, None);
        Rss { calibration, ..rss }.since(None).line()
    };
    let terms = " + files 1.00 MiB + other anonymous 1.00 MiB";
    let not_seen = "live 1.0 MiB (±30%) + not seen 2.0 MiB (±15%)";
    assert_eq!(of(Calibration::NotSeen, 1.0), format!("RSS 5.00 MiB = {not_seen}{terms}"));
    let within_error = "live 2.9 MiB (±10%) + not seen up to 410 KiB";
    assert_eq!(of(Calibration::NoTotal, 2.9), format!("RSS 5.00 MiB = {within_error}{terms}"));
}

/// The survey counts 3 MiB ± 1 as live and 1 MiB as free; with the samples, 2.50 MiB ± 0.1 are live.
#[test]
fn calibrated_live_bytes_correct_the_survey() {
    let mut explained = explained_with(&[HEAP]);
    explained.transfer(Part::Held, Part::Live, 3 << 20);
    explained.transfer(Part::Anonymous, Part::FreeChunks, 1 << 20);
    let live = Some((estimate(2.5, 0.1), false));
    let mut rss = Rss {
        calibration: Calibration::Calibrated,
        total: Some(estimate(3.0, 1.0)),
        ..Rss::divided(explained, None, live, &|| None, None)
    };
    let mut with_lists = rss.clone();
    rss.terms[Term::Free as usize] = estimate(1.0, 1.0);
    rss.correct_survey();
    let terms = "live 2.50 MiB (±4.0%) + free in malloc 1.50 MiB (±6.7%) + files 1.00 MiB";
    assert_eq!(rss.since(None).line(), format!("RSS 5.00 MiB = {terms}"));
    // If the lists of free chunks tell all that is free, the number of blocks is in doubt, and with it the metadata.
    with_lists.correct_survey();
    let terms = "live 2.50 MiB (±4.0%) + free in malloc 1.00 MiB + allocator metadata 512 KiB + files 1.00 MiB";
    assert_eq!(with_lists.since(None).line(), format!("RSS 5.00 MiB = {terms}"));
}

#[test]
fn partial_records_give_bounds() {
    assert_eq!(
        line_of(estimate(2.0, 0.0).as_part()),
        "RSS 5.00 MiB = live ≥ 2.00 MiB + held by malloc ≤ 1.00 MiB + files 1.00 MiB + other anonymous 1.00 MiB"
    );
}

#[test]
fn terms_of_processes_add_up() {
    let one = divided(Some(estimate(2.0, 0.3)));
    let other = divided(Some(estimate(1.0, 0.4)));
    let sum = Rss::sum(&[&one, &other]).unwrap();
    assert_eq!(sum.bytes, 10 << 20);
    let live = sum.term(Term::Live);
    assert_eq!(live.value, 3.0 * MIB);
    assert!((live.half_width_95() / (0.5 * MIB) - 1.0).abs() < 1e-6, "{live:?}");
    assert_eq!(sum.explained.rss, 10 << 20);
    assert!(Rss::sum(&[]).is_none());
}

#[test]
fn an_object_has_every_term() {
    let rss = divided(Some(estimate(2.0, 0.3)));
    let object = serde_json::to_value(&rss).unwrap();
    assert_eq!(object["bytes"], 5 << 20);
    assert_eq!(object["terms"]["live"]["value"], 2 << 20);
    assert_eq!(object["terms"]["kernel"]["value"], 0);
    assert_eq!(object["terms"].as_object().unwrap().len(), Term::ALL.len());
}

#[test]
fn attached_held_memory_is_not_free() {
    let rss = of_areas(100, 20, 30);
    assert!(rss.line().contains(" + held by malloc 70.0 MiB"), "{}", rss.line());
    let rss = rss.since(Some(Before::Attach));
    let words = " + held by malloc: allocated before the attach, or free 70.0 MiB";
    assert!(rss.line().contains(words), "{}", rss.line());
}

#[test]
fn memory_before_attach_is_a_term() {
    let mut explained = explained();
    explained.transfer(Part::Anonymous, Part::Live, 3 << 20);
    let rss = Rss::divided(explained, None, Some((estimate(2.0, 0.3), false)), &|| None, None);
    let rss = rss.since(Some(Before::Attach));
    assert!((rss.term(Term::Live).value - 2.0 * MIB).abs() < 1.0);
    assert!((rss.term(Term::Unseen).value - MIB).abs() < 1.0);
    let sum: f64 = Term::ALL.iter().map(|&(term, _)| rss.term(term).value).sum();
    assert_eq!(sum, 5.0 * MIB);
    let line = rss.line();
    let words = "live 2.0 MiB (±15%) + allocated before the attach or not seen 1.0 MiB (±30%)";
    assert!(line.contains(words), "{line}");
}

#[test]
fn parent_memory_beyond_error_is_told() {
    let line = half_unseen(375.0, 37.5, 8.6, Before::Fork).line();
    let terms = "live 38 MiB (±23%) + inherited from parent or not seen 338 MiB (±2.5%)";
    assert_eq!(line, format!("RSS 375 MiB = {terms}"));
    // A daemon.
    let rss = half_unseen(100.0, 95.0, 8.0, Before::Fork);
    let terms = "live 95.0 MiB (±8.4%) + inherited from parent or not seen up to 13 MiB";
    assert_eq!(rss.line(), format!("RSS 100 MiB = {terms}"));
    assert_eq!(rss.short_line(), "RSS 100 MiB = live 95.0 MiB (±8.4%) + other 5.00 MiB");
    assert!(!rss.may_hold_live);
}

#[test]
fn untouched_blocks_are_no_earlier_memory() {
    let mut explained = explained();
    explained.transfer(Part::Anonymous, Part::Live, 3 << 20);
    let residence =
        || Some(Residence { resident: estimate(1.0, 0.3), missing: estimate(1.0, 0.3) });
    let live = Some((estimate(2.0, 0.3), true));
    let rss = Rss::divided(explained, None, live, &residence, None).since(Some(Before::Attach));
    assert!((rss.term(Term::Live).value - MIB).abs() < 1.0);
    assert!((rss.term(Term::Unseen).value - 2.0 * MIB).abs() < 1.0);
}

#[test]
fn higher_peak_stands_beside_rss() {
    let with = |peak_mib: u64| Rss { peak_bytes: Some(peak_mib << 20), ..of_areas(80, 20, 80) };
    assert!(with(109).line().starts_with("RSS 100 MiB = "));
    assert!(with(110).line().starts_with("RSS 100 MiB (110 MiB at its peak) = "));
    let sum = Rss::sum(&[&with(300), &with(200)]).unwrap();
    assert_eq!(sum.peak_bytes, None, "they need not have peaked together");
}

#[test]
fn short_line_has_the_largest_terms() {
    let of = |parts: &[(Part, i64)]| {
        let text = "10000000-50000000 rw-p 0 00:00 0 [heap]\nRss: 81920 kB\n\
            7f1000000000-7f1100000000 rw-p 0 00:00 0 \nRss: 20480 kB\n";
        let mut explained = explained_of(text, &[0x1000_0000]);
        for &(part, kib) in parts {
            explained.transfer(Part::Anonymous, part, kib << 10);
        }
        let live = Some((estimate(80.0, 0.0), false));
        Rss::divided(explained, None, live, &|| None, None).short_line()
    };
    let many =
        [(Part::Stacks, 8192), (Part::Files, 6144), (Part::Metadata, 4096), (Part::Kernel, 4)];
    assert_eq!(
        of(&many),
        "RSS 100 MiB = live 80.0 MiB + stacks 8.00 MiB + files 6.00 MiB + other 6.00 MiB"
    );
    // Less than a hundredth is no term of its own.
    let small = of(&[(Part::Stacks, 20_000), (Part::Kernel, 4)]);
    assert_eq!(small, "RSS 100 MiB = live 80.0 MiB + stacks 19.5 MiB + other 480 KiB");
    assert_eq!(of(&[(Part::Stacks, 20_480)]), "RSS 100 MiB = live 80.0 MiB + stacks 20.0 MiB");
}
