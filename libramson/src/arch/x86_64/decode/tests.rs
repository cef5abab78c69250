//! The decoder against iced-x86, over real programs and over random bytes.

use super::{Flow, Instruction, LEGACY_PREFIXES, Opcode, decode};
use crate::sampler::{next_random, seed};
use iced_x86::{Code, Decoder, DecoderOptions, EncodingKind, FlowControl, Register};
use object::{Object, ObjectSection, SectionKind};
use std::collections::BTreeMap;

const BASE: u64 = 1 << 46;
/// Code of each file that is compared: a test must not take long.
const MOST_CODE: usize = 2 << 20;

/// Numbers of comparisons with different ends.
#[derive(Default, Debug)]
struct Seen {
    equal: u64,
    both_invalid: u64,
    /// Only iced takes it, which the reason allows.
    refused: BTreeMap<&'static str, u64>,
    /// Only we take it.
    lenient: u64,
}

/// Flow, as iced has it.
fn flow_of(theirs: &iced_x86::Instruction) -> Flow {
    let target = theirs.near_branch_target().wrapping_sub(theirs.ip()) as i64;
    match (theirs.flow_control(), theirs.code()) {
        (_, Code::Hlt | Code::Int1 | Code::Int3) => Flow::End,
        // Privileged returns that share their bytes with clac.
        (_, Code::Erets | Code::Eretu) => Flow::Next,
        (_, Code::Xbegin_rel16 | Code::Xbegin_rel32) => Flow::Fixed(target),
        (FlowControl::UnconditionalBranch, _) => Flow::Jump(target),
        (FlowControl::ConditionalBranch, code) if code.is_jcc_short_or_near() => {
            Flow::Conditional(target)
        }
        (FlowControl::ConditionalBranch, _) => Flow::Fixed(target),
        (FlowControl::Call, code) if code.is_call_near() => Flow::Call(target),
        (FlowControl::IndirectBranch, _) => Flow::IndirectJump,
        (FlowControl::IndirectCall, _) => Flow::IndirectCall,
        (FlowControl::Return | FlowControl::Exception, _) => Flow::End,
        _ => Flow::Next,
    }
}

/// The reason why we may refuse what iced takes.
fn reason(code: &[u8], theirs: &iced_x86::Instruction) -> Option<&'static str> {
    let is_legacy = |byte: &u8| LEGACY_PREFIXES.contains(byte);
    let prefixes = code.iter().take_while(|byte| is_legacy(byte)).count();
    let is_narrow = code[..prefixes].contains(&0x66) && code[prefixes] & 0xf8 != 0x48;
    match code[prefixes..] {
        [0x40..=0x4f, next, ..] if is_legacy(&next) || next & 0xf0 == 0x40 => Some("REX before"),
        [0x0f, 0xa6 | 0xa7, ..] | [0x40..=0x4f, 0x0f, 0xa6 | 0xa7, ..] => Some("PadLock"),
        [0x0f, 0x0e | 0x0f, ..] | [0x40..=0x4f, 0x0f, 0x0e | 0x0f, ..] => Some("3DNow!"),
        _ if theirs.encoding() == EncodingKind::XOP => Some("XOP"),
        _ if theirs.memory_base() == Register::EIP => Some("address of 32 bits"),
        _ => (is_narrow && theirs.near_branch_target() != 0).then_some("narrow branch"),
    }
}

/// Compares what `code` begins with; its length.
fn compare(code: &[u8], seen: &mut Seen) -> usize {
    let mut decoder = Decoder::with_ip(64, code, BASE, DecoderOptions::NONE);
    let theirs = decoder.decode();
    let ours = decode(code);
    let shown = || format!("{:02x?}: {ours:?}, {:?}", &code[..code.len().min(16)], theirs.code());
    if theirs.is_invalid() {
        *if ours.is_some() { &mut seen.lenient } else { &mut seen.both_invalid } += 1;
        return 1;
    }
    let Some(found) = ours else {
        let reason = reason(code, &theirs).unwrap_or_else(|| panic!("{}", shown()));
        *seen.refused.entry(reason).or_default() += 1;
        return theirs.len();
    };
    let displacement_at = theirs
        .is_ip_rel_memory_operand()
        .then(|| decoder.get_constant_offsets(&theirs).displacement_offset());
    assert_eq!(
        (found.bytes, found.flow, found.displacement_at),
        (theirs.len(), flow_of(&theirs), displacement_at),
        "{}",
        shown()
    );
    // No byte behind it was read, and each of its own is needed.
    assert_eq!(decode(&code[..found.bytes]), ours);
    assert_eq!(decode(&code[..found.bytes - 1]), None);
    seen.equal += 1;
    found.bytes
}

#[test]
fn programs_decode_as_with_iced() {
    let folders = ["/usr/bin", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/proc/self"];
    let names = [
        "exe",
        "bash",
        "gdb",
        "libc.so.6",
        "libcrypto.so.3",
        "libm.so.6",
        "libpython3.11.so.1.0",
        "libstdc++.so.6",
    ];
    let mut seen = Seen::default();
    for name in names {
        let read = |folder| std::fs::read(format!("{folder}/{name}")).ok();
        let Some(file) = folders.iter().find_map(read) else { continue };
        let object = object::File::parse(&*file).unwrap();
        let mut left = MOST_CODE;
        for section in object.sections().filter(|section| section.kind() == SectionKind::Text) {
            let code = section.data().unwrap();
            let mut at = 0;
            while at < code.len().min(left) {
                at += compare(&code[at..], &mut seen);
            }
            left = left.saturating_sub(at);
        }
    }
    assert!(seen.equal > 500_000, "{seen:?}");
    // Data between functions of libcrypto, and its functions for old processors of AMD.
    let odd = seen.refused.values().sum::<u64>() + seen.lenient;
    assert!(odd < seen.equal / 500, "{seen:?}");
}

#[test]
fn random_bytes_decode_as_with_iced() {
    const STRINGS: u64 = 2_000_000;
    const FIRST: [&[u8]; 8] = [
        &[0x0f],
        &[0x0f, 0x38],
        &[0x0f, 0x3a],
        &[0x66, 0x0f],
        &[0xf3, 0x0f],
        &[0xc5],
        &[0xc4, 0xe2],
        &[0x62],
    ];
    let (mut seen, mut with_first) = (Seen::default(), Seen::default());
    let mut state = seed(1);
    for index in 0..STRINGS {
        let high = next_random(state);
        state = next_random(high);
        let mut bytes = (u128::from(high) << 64 | u128::from(state)).to_le_bytes();
        compare(&bytes, &mut seen);
        let first = FIRST[index as usize % FIRST.len()];
        bytes[..first.len()].copy_from_slice(first);
        compare(&bytes, &mut with_first);
    }
    assert!(with_first.equal > STRINGS / 4, "{with_first:?}");
    assert!(seen.lenient < STRINGS / 100, "{seen:?}");
}

fn bytes_of(hex: &str) -> Vec<u8> {
    hex.split(' ').filter_map(|byte| u8::from_str_radix(byte, 16).ok()).collect()
}

#[test]
fn facts_of_hand_written_instructions() {
    use Opcode::{Evex, Of0f, Of0f3a, OneByte, Vex};
    // Code; flow; displacement; prefixes and REX; opcode, ModRM byte and its place.
    let cases: [(&str, _, _, _, _, _, _); 20] = [
        ("f3 0f 1e fa", Flow::Next, None, (1, 0), Of0f(0x1e), 3, Some(0xfa)),
        ("55", Flow::Next, None, (0, 0), OneByte(0x55), 1, None),
        ("48 83 ec 08", Flow::Next, None, (0, 0x48), OneByte(0x83), 2, Some(0xec)),
        ("48 8b 05 01 00 00 00", Flow::Next, Some(3), (0, 0x48), OneByte(0x8b), 2, Some(5)),
        (
            "81 3d 01 00 00 00 02 00 00 00",
            Flow::Next,
            Some(2),
            (0, 0),
            OneByte(0x81),
            1,
            Some(0x3d),
        ),
        ("49 bb 01 02 03 04 05 06 07 08", Flow::Next, None, (0, 0x49), OneByte(0xbb), 2, None),
        ("66 b8 01 02", Flow::Next, None, (1, 0), OneByte(0xb8), 2, None),
        ("f6 44 24 08 01", Flow::Next, None, (0, 0), OneByte(0xf6), 1, Some(0x44)),
        ("f7 d8", Flow::Next, None, (0, 0), OneByte(0xf7), 1, Some(0xd8)),
        ("74 fe", Flow::Conditional(0), None, (0, 0), OneByte(0x74), 1, None),
        ("0f 85 00 01 00 00", Flow::Conditional(262), None, (0, 0), Of0f(0x85), 2, None),
        ("e9 f0 ff ff ff", Flow::Jump(-11), None, (0, 0), OneByte(0xe9), 1, None),
        ("66 66 48 e8 01 00 00 00", Flow::Call(9), None, (2, 0x48), OneByte(0xe8), 4, None),
        ("3e ff e0", Flow::IndirectJump, None, (1, 0), OneByte(0xff), 2, Some(0xe0)),
        ("ff 15 01 00 00 00", Flow::IndirectCall, Some(2), (0, 0), OneByte(0xff), 1, Some(0x15)),
        ("e2 10", Flow::Fixed(18), None, (0, 0), OneByte(0xe2), 1, None),
        ("f3 c3", Flow::End, None, (1, 0), OneByte(0xc3), 2, None),
        ("66 0f 3a 0f 04 25 01 00 00 00 08", Flow::Next, None, (1, 0), Of0f3a(0x0f), 4, Some(4)),
        ("c5 f8 77", Flow::Next, None, (0, 0), Vex(1, 0x77), 3, None),
        ("62 f1 fe 48 6f 05 01 00 00 00", Flow::Next, Some(6), (0, 0), Evex(1, 0x6f), 5, Some(5)),
    ];
    for (code, flow, displacement_at, (prefixes, rex), opcode, modrm_at, modrm) in cases {
        let code = bytes_of(code);
        let bytes = code.len();
        let expected =
            Instruction { bytes, flow, displacement_at, prefixes, rex, opcode, modrm_at, modrm };
        let followed = [&code[..], &[0x90; 16]].concat();
        assert_eq!(decode(&followed), Some(expected), "{code:02x?}");
    }
}

#[test]
fn ambiguous_code_is_refused() {
    let nop_after = |prefixes| [vec![0x66; prefixes], vec![0x90]].concat();
    assert_eq!(decode(&nop_after(14)).map(|found| found.bytes), Some(15));
    assert_eq!(decode(&nop_after(15)), None);
    let cases: [&str; 14] = [
        "",
        "66 e9 00 00 00 00",
        "66 0f 84 00 00 00 00",
        "66 75 00 00",
        "48 66 90",
        "67 8b 05 00 00 00 00",
        "8f e8 78 c2 ec 0e",
        "0f 0f c1 b4",
        "0f b8 c0",
        "06",
        "ea 00 00 00 00 00 00",
        "d5 10 90",
        "62 f4 7c 08 01 c0",
        "66 c5 f8 77",
    ];
    for code in cases {
        assert_eq!(decode(&bytes_of(code)), None, "{code}");
    }
}
