use super::*;

fn names(text: &str, addresses: impl IntoIterator<Item = u64>) -> Vec<String> {
    names_of(&PerfMap::parse(text.into()), addresses)
}

/// Of addresses that are seen after everything was compiled.
fn names_of(map: &PerfMap, addresses: impl IntoIterator<Item = u64>) -> Vec<String> {
    let seen = |address| SeenAddress { address, first_ns: u64::MAX, last_ns: u64::MAX };
    let wanted: Vec<SeenAddress> = addresses.into_iter().map(seen).collect();
    let or_dash = |name: Cow<str>| if name.is_empty() { "-".into() } else { name.into_owned() };
    map.find(&wanted).into_iter().map(or_dash).collect()
}

#[test]
fn maps_of_languages_are_read() {
    let text = "7f0010 20 LazyCompile:*total /srv/app.js:3:15\n\
                0x7f0040 0x10 py::handle request:/srv/app.py\n\
                7F0060 8 Lcom/example/Main;::run\n";
    assert_eq!(
        names(text, [0x7f_0010, 0x7f_002f, 0x7f_0030, 0x7f_004f, 0x7f_0067]),
        [
            "LazyCompile:*total /srv/app.js:3:15",
            "LazyCompile:*total /srv/app.js:3:15",
            "-",
            "py::handle request:/srv/app.py",
            "Lcom/example/Main;::run"
        ]
    );
}

#[test]
fn later_function_replaces_earlier() {
    // The old one keeps what is left of it on both sides; whole old ones go.
    assert_eq!(
        names("10 10 a\n14 4 b\n", [0x10, 0x13, 0x14, 0x17, 0x18, 0x1f]),
        ["a", "a", "b", "b", "a", "a"]
    );
    assert_eq!(names("10 4 a\n14 4 b\n18 4 c\n12 8 d\n", 0x10..0x1c).join(""), "aaddddddddcc");
    assert_eq!(names("10 4 a\n10 4 b\n", [0x10, 0x13]), ["b", "b"]);
    assert_eq!(names("10 4 a\n0 40 b\n", [0x10, 0x3f]), ["b", "b"]);
}

/// The optimized handler is discarded, and its address used again; a stack that was seen before keeps its name.
#[test]
fn discarded_code_keeps_its_name() {
    let map = PerfMap::parse(
        b"100 10 start\n200 20 handler\n300 10 timer\n200 10 parser\n400 10 later\n".to_vec(),
    );
    let named = |wanted: &[(u64, u64)]| {
        let seen = |&(address, at_ns): &(u64, u64)| SeenAddress {
            address,
            first_ns: at_ns,
            last_ns: at_ns,
        };
        map.find(&wanted.iter().map(seen).collect::<Vec<_>>()).join(" ")
    };
    // The timer was seen at 30, and `later` at 60: the parser came in between.
    let others = [(0x100, 1), (0x300, 30), (0x400, 60)];
    let with = |at: (u64, u64)| named(&[others[0], others[1], others[2], at]);
    assert_eq!(with((0x204, 40)), "start timer later handler");
    assert_eq!(with((0x204, 61)), "start timer later parser");
    // The rest of the handler's place was never used again.
    assert_eq!(with((0x214, 61)), "start timer later handler");
    // Without other addresses, the latest function counts.
    assert_eq!(named(&[(0x204, 5)]), "parser");
}

/// The handler was compiled into the place of start-up code, is seen at once and stays; what was compiled after it is seen later or never.
#[test]
fn hot_code_at_the_end_of_a_map_is_found() {
    let map =
        PerfMap::parse(b"100 10 first\n200 20 start-up\n300 10 timer\n200 20 handler\n".to_vec());
    let seen = |address, first_ns, last_ns| SeenAddress { address, first_ns, last_ns };
    let others = [seen(0x100, 1, 1), seen(0x300, 45, 99)];
    let named = |at| map.find(&[others[0], others[1], at]).join(" ");
    assert_eq!(named(seen(0x204, 33, 117)), "first timer handler");
    assert_eq!(named(seen(0x204, 2, 3)), "first timer start-up");
}

#[test]
fn map_agrees_with_address_table() {
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let mut table = vec!["-".to_owned(); 300];
    let mut text = String::new();
    for index in 0..400 {
        let (start, size) = (random(250), 1 + random(40));
        text += &format!("{start:x} {size:x} f{index}\n");
        table[start as usize..(start + size) as usize].fill(format!("f{index}"));
    }
    assert_eq!(names(&text, 0..300), table);
}

#[test]
fn lines_of_another_form_name_nothing() {
    let text = "\n10\n10 4\n10 4 \nzz 4 a\n10 0 a\nffffffffffffffff 4 a\n-1 4 a\n 10 4 a\n5 1b6c171cd580 353 a\n20 4 b\n";
    assert_eq!(names(text, [0x10, 0xffff_ffff_ffff_ffff, 0x20]), ["-", "-", "b"]);
}

#[test]
fn map_takes_little_memory() {
    let line = |at: u64| format!("{at:x}000 1000 LazyCompile:*f{at} /srv/application.js:3:15\n");
    let text: String = (1..10_000).map(line).collect();
    let map = PerfMap::parse(text.clone().into());
    assert_eq!(map.content.capacity(), text.len());
    assert!(size_of::<Function>() <= 16);
    assert_eq!(names_of(&map, [0x1_2345]), ["LazyCompile:*f18 /srv/application.js:3:15"]);
}

#[test]
fn binary_names_are_shown_as_text() {
    let map = PerfMap::parse(b"10 4 a\xffb\r\n20 4 cut off".to_vec());
    assert_eq!(names_of(&map, [0x10, 0x20]), ["a\u{fffd}b", "-"]);
    let long = format!("10 4 {}\n", "é".repeat(MAX_NAME_BYTES));
    let map = PerfMap::parse(long.into());
    assert_eq!(names_of(&map, [0x10])[0].len(), MAX_NAME_BYTES);
}
