//! Instructions one by one: how long each is, and where execution goes on.
//!
//! Refused, besides what no processor has, are: 3DNow!, XOP, PadLock, jmpe; APX (REX2, EVEX map 4) and VEX map 7; a REX prefix that
//! does not count because another prefix follows; 66 at a relative branch without REX.W, which Intel's and AMD's processors read
//! differently; 67 at an address relative to the next instruction's, which it cuts to 32 bits. Taken is what has an opcode's length
//! and faults all the same, by its prefixes, ModRM byte or VEX fields: it faults elsewhere, too.

#[cfg(test)]
mod tests;

/// Facts of one instruction. Offsets are from its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// Length.
    pub bytes: usize,
    pub flow: Flow,
    /// Offset of 32 bits that give an operand's address relative to the next instruction's.
    pub displacement_at: Option<usize>,
    /// Bytes of legacy prefixes, with which it begins.
    pub prefixes: usize,
    /// REX prefix; 0 if there is none.
    pub rex: u8,
    pub opcode: Opcode,
    /// Offset of what follows the opcode: the ModRM byte, if there is one.
    pub modrm_at: usize,
    pub modrm: Option<u8>,
}

/// Place at which execution goes on. Targets are relative to the instruction's first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Execution goes on behind the instruction, maybe after the kernel was called.
    Next,
    /// Execution goes on elsewhere or nowhere: returns, int3, hlt, ud2 and the like.
    End,
    Jump(i64),
    /// Execution goes on at the target or behind the instruction.
    Conditional(i64),
    /// The same, of loop, jrcxz and xbegin, which have no form that reaches further, or cannot run elsewhere.
    Fixed(i64),
    Call(i64),
    IndirectJump,
    IndirectCall,
}

/// An opcode, by the map that it is in. Those of VEX and EVEX have a number, which comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opcode {
    OneByte(u8),
    Of0f(u8),
    Of0f38(u8),
    Of0f3a(u8),
    Vex(u8, u8),
    Evex(u8, u8),
}

const MOST_BYTES: usize = 15;
const LEGACY_PREFIXES: [u8; 11] =
    [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3];
/// Prefixes that VEX and EVEX do not take: most are a part of them.
const VECTORS_FAULT_WITH: [u8; 4] = [0x66, 0xf0, 0xf2, 0xf3];
/// ModRM of xabort and xbegin, which share their opcodes with mov.
const TRANSACTION: u8 = 0xf8;

/// A letter for each opcode says what follows it: `.` nothing; `b`, `w`, `e` 1, 2, 3 bytes; `z` 4 bytes, or 2 by a prefix; `v` the same, or 8;
/// `o` an address; `m` ModRM; `M`, `W`, `Z` this and what `b`, `w`, `z` say; `t`, `T` as `M`, `Z` if it is test, otherwise as `m`; `-`: invalid.
const ONE_BYTE: &[u8; 256] = b"\
    mmmmbz--mmmmbz--mmmmbz--mmmmbz--\
    mmmmbz--mmmmbz--mmmmbz--mmmmbz--\
    ----------------................\
    ---m----zZbM....bbbbbbbbbbbbbbbb\
    MZ-Mmmmmmmmmmmmm..........-.....\
    oooo....bz......bbbbbbbbvvvvvvvv\
    MMw.--MZe.w..b-.mmmm---.mmmmmmmm\
    bbbbbbbbzz-b....-.--..tT......mm\
    ";
const OF_0F: &[u8; 256] = b"\
    mmmm-.....-.-m--mmmmmmmmmmmmmmmm\
    mmmm----mmmmmmmm......-.--------\
    mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm\
    mmmmmmmmmmmmmmmmMMMMmmm.mm--mmmm\
    zzzzzzzzzzzzzzzzmmmmmmmmmmmmmmmm\
    ...mMm--...mMmmmmmmmmmmmmmMmmmmm\
    mmMmMMMm........mmmmmmmmmmmmmmmm\
    mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm\
    ";

/// Opcodes that a map has with any prefix, a bit each.
type Known = [u64; 4];
const OF_0F38: Known = [0xffbf0f3f70b10fff, 0x3, 0x7, 0x1f630000f900bf00];
const OF_0F3A: Known = [0x0000000700f0ff00, 0x0000000f00000017, 0, 0x000100008000d000];
/// Maps from 1 on, of VEX and EVEX together.
const VECTORS: [Known; 6] = [
    [0x0000ff0000ff0000, 0xffffffffffff0cf6, 0x00004000030f0000, 0x7fffffffffff0074],
    [0xffffffffffffffff, 0xffef117c5f3ffaff, 0xfff3ffcfffcfff08, 0x00ecfffffc0cbdd0],
    [0xcf0f00efeff0ff7f, 0xff0fffcff0f31f5f, 0, 0x00010000c000c004],
    [0; 4],
    [0x0000f40020030000, 0x7f004000ff020000, 0, 0],
    [0x0000300000080000, 0x0000000000c0f00c, 0xffc0ffc0ffc00000, 0x0000000000c00000],
];

/// The instruction that `code` begins with; `None` if it is cut off, invalid or refused.
pub fn decode(code: &[u8]) -> Option<Instruction> {
    let prefixes = code.iter().take_while(|byte| LEGACY_PREFIXES.contains(byte)).count();
    let has = |prefix| code.iter().take(prefixes).any(|&byte| byte == prefix);
    let rex = code.get(prefixes).copied().filter(|byte| byte & 0xf0 == 0x40).unwrap_or(0);
    let opcode_at = prefixes + usize::from(rex != 0);
    let (opcode, escapes) = opcode(code.get(opcode_at..)?)?;
    let letter = letter(opcode, rex, has)?;
    let modrm_at = opcode_at + escapes + 1;
    let has_modrm = matches!(letter, b'm' | b'M' | b'W' | b'Z' | b't' | b'T');
    let modrm = if has_modrm { Some(*code.get(modrm_at)?) } else { None };
    let (address_bytes, is_relative) = match modrm {
        Some(modrm) if !is_valid(opcode, modrm) => return None,
        // Moves of control and debug registers have no memory form.
        Some(modrm) if !matches!(opcode, Opcode::Of0f(0x20..=0x23)) => {
            address(modrm, code.get(modrm_at + 1).copied())?
        }
        _ => (0, false),
    };
    let is_wide = rex & 8 != 0;
    let is_narrow = has(0x66) && !is_wide;
    let is_test = modrm.is_some_and(|modrm| modrm >> 3 & 7 < 2);
    let immediate = match letter {
        b'.' | b'm' => 0,
        b't' | b'T' if !is_test => 0,
        b'b' | b'M' | b't' => 1,
        b'w' | b'W' => 2,
        b'e' => 3,
        b'v' if is_wide => 8,
        b'o' if !has(0x67) => 8,
        b'z' | b'v' | b'Z' | b'T' if is_narrow => 2,
        _ => 4,
    };
    let immediate_at = modrm_at + usize::from(has_modrm) + address_bytes;
    let bytes = immediate_at + immediate;
    let distance = match *code.get(immediate_at..bytes)? {
        [byte] => i64::from(byte as i8),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => 0,
    };
    let flow = flow(opcode, modrm, bytes as i64 + distance);
    let is_ambiguous = match flow {
        Flow::Jump(_) | Flow::Conditional(_) | Flow::Fixed(_) | Flow::Call(_) => is_narrow,
        _ => is_relative && has(0x67),
    };
    let displacement_at = is_relative.then_some(modrm_at + 1);
    (bytes <= MOST_BYTES && !is_ambiguous).then_some(Instruction {
        bytes,
        flow,
        displacement_at,
        prefixes,
        rex,
        opcode,
        modrm_at,
        modrm,
    })
}

/// The opcode, and the number of bytes before it that say which map it is in.
fn opcode(code: &[u8]) -> Option<(Opcode, usize)> {
    Some(match *code {
        [0x0f, 0x38, opcode, ..] => (Opcode::Of0f38(opcode), 2),
        [0x0f, 0x3a, opcode, ..] => (Opcode::Of0f3a(opcode), 2),
        [0x0f, opcode, ..] => (Opcode::Of0f(opcode), 1),
        [0xc5, _, opcode, ..] => (Opcode::Vex(1, opcode), 2),
        [0xc4, first, _, opcode, ..] => (Opcode::Vex(first & 31, opcode), 3),
        // Both bits have these values but for APX.
        [0x62, first, second, _, opcode, ..] if first & 8 == 0 && second & 4 != 0 => {
            (Opcode::Evex(first & 7, opcode), 4)
        }
        [opcode, ..] => (Opcode::OneByte(opcode), 0),
        [] => return None,
    })
}

/// The opcode's letter, as of the tables above.
fn letter(opcode: Opcode, rex: u8, has: impl Fn(u8) -> bool + Copy) -> Option<u8> {
    let is_in = |known: &Known, opcode: u8| {
        known.get(usize::from(opcode >> 6)).is_some_and(|bits| bits >> (opcode & 63) & 1 != 0)
    };
    let vector_faults = rex != 0 || VECTORS_FAULT_WITH.into_iter().any(has);
    let letter = match opcode {
        Opcode::OneByte(opcode) => *ONE_BYTE.get(usize::from(opcode))?,
        // Without its prefix popcnt is jmpe.
        Opcode::Of0f(0xb8) if !has(0xf3) => b'-',
        // With one of these it is not vmread but extrq or insertq.
        Opcode::Of0f(0x78) if has(0x66) || has(0xf2) => b'W',
        Opcode::Of0f(opcode) => *OF_0F.get(usize::from(opcode))?,
        Opcode::Of0f38(opcode) if is_in(&OF_0F38, opcode) => b'm',
        Opcode::Of0f3a(opcode) if is_in(&OF_0F3A, opcode) => b'M',
        Opcode::Vex(..) | Opcode::Evex(..) if vector_faults => b'-',
        Opcode::Vex(1, 0x77) => b'.',
        Opcode::Vex(map @ 1..=3, opcode) | Opcode::Evex(map, opcode) => {
            let is_known = is_in(VECTORS.get(usize::from(map).checked_sub(1)?)?, opcode);
            match (map, opcode) {
                _ if !is_known => b'-',
                (3, _) | (1, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6) => b'M',
                _ => b'm',
            }
        }
        _ => b'-',
    };
    (letter != b'-').then_some(letter)
}

/// Whether an opcode that depends on a part of the ModRM byte is one with this.
fn is_valid(opcode: Opcode, modrm: u8) -> bool {
    let (is_memory, register) = (modrm < 0xc0, modrm >> 3 & 7);
    match opcode {
        Opcode::OneByte(0x8c) => register < 6,
        Opcode::OneByte(0x8d) => is_memory,
        Opcode::OneByte(0x8e) => register < 6 && register != 1,
        // Others are XOP.
        Opcode::OneByte(0x8f) => register == 0,
        Opcode::OneByte(0xc6 | 0xc7) => register == 0 || modrm == TRANSACTION,
        Opcode::OneByte(0xfe) => register < 2,
        Opcode::OneByte(0xff) => register < 7 && (is_memory || register != 3 && register != 5),
        _ => true,
    }
}

/// Bytes behind the ModRM byte that give an address, and whether it is relative to the next instruction's.
fn address(modrm: u8, scaled: Option<u8>) -> Option<(usize, bool)> {
    Some(match (modrm >> 6, modrm & 7) {
        (3, _) => (0, false),
        (0, 5) => (4, true),
        (0, 4) if scaled? & 7 == 5 => (5, false),
        (mode, base) => (usize::from(base == 4) + [0, 1, 4].get(usize::from(mode))?, false),
    })
}

fn flow(opcode: Opcode, modrm: Option<u8>, target: i64) -> Flow {
    match (opcode, modrm) {
        (Opcode::OneByte(0x70..=0x7f) | Opcode::Of0f(0x80..=0x8f), _) => Flow::Conditional(target),
        (Opcode::OneByte(0xe0..=0xe3), _) => Flow::Fixed(target),
        (Opcode::OneByte(0xc7), Some(TRANSACTION)) => Flow::Fixed(target),
        (Opcode::OneByte(0xe9 | 0xeb), _) => Flow::Jump(target),
        (Opcode::OneByte(0xe8), _) => Flow::Call(target),
        (Opcode::OneByte(0xff), Some(modrm)) => match modrm >> 3 & 7 {
            2 | 3 => Flow::IndirectCall,
            4 | 5 => Flow::IndirectJump,
            _ => Flow::Next,
        },
        (Opcode::OneByte(0xc2 | 0xc3 | 0xca | 0xcb | 0xcc | 0xcf | 0xf1 | 0xf4), _) => Flow::End,
        (Opcode::Of0f(0x07 | 0x0b | 0x35 | 0xaa | 0xb9 | 0xff), _) => Flow::End,
        // skinit and uiret.
        (Opcode::Of0f(0x01), Some(0xde | 0xec)) => Flow::End,
        _ => Flow::Next,
    }
}
