//! Allocators inside the executable or a library: which of their functions are recorded, and which are not.

use ramson_format::members::MEMBERS;
use ramson_format::{AllocatorKind, Inside, MemberState, flags};
use ramson_process::allocators::{ATTACH_INSIDE, INSIDE_ON};
use ramson_profile::format::format_objects;
use ramson_reader::{Snapshot, object_name};
use serde::Serialize;

const WITHOUT_INSIDE: &str = "the latest attach was without --inside";
/// More samples than this part, at whose address another one was still live, mean that frees are missed.
const MOST_MISSED: f64 = 0.001;

/// An allocator inside an object.
#[derive(Serialize, schemars::JsonSchema)]
pub struct AllocatorInside {
    /// jemalloc, mimalloc, tcmalloc, snmalloc, or malloc for one that is not known by name.
    pub allocator: &'static str,
    /// The object's file; empty for the executable.
    pub object: String,
    /// Functions whose calls are counted.
    pub hooked: Vec<&'static str>,
    /// Functions whose calls are not.
    pub refused: Vec<RefusedFunction>,
    /// Samples of it.
    pub samples: u64,
    /// Number of its live samples' family.
    #[serde(skip)]
    pub family: u8,
    /// Those at whose address another one was still live: its free was not seen.
    pub missed_frees: u64,
    /// So many frees are missed that its live bytes are an upper bound.
    pub is_upper_bound: bool,
}

/// A function of an allocator whose calls are not counted.
#[derive(Serialize, schemars::JsonSchema)]
pub struct RefusedFunction {
    /// Without the prefix that the object may have in front of it.
    pub function: &'static str,
    /// What kept a hook from it.
    pub reason: &'static str,
}

/// The allocators inside objects that a snapshot tells of.
pub fn of(snapshot: &Snapshot) -> Vec<AllocatorInside> {
    // An earlier attach had hooks in them.
    let is_off = Inside::of(snapshot.header.inside) == Inside::Off;
    let all = snapshot.allocators.iter().map(|it| {
        let states = || {
            let states = it.states.iter().map(|&state| MemberState::of(state).unwrap_or_default());
            MEMBERS.iter().map(|member| member.name).zip(states)
        };
        let hooked = states().filter(|&(_, state)| state == MemberState::Hooked && !is_off);
        let refused = states().filter_map(|(function, state)| {
            let is_left = state == MemberState::Hooked && is_off;
            let reason = if is_left { Some(WITHOUT_INSIDE) } else { reason(state) };
            Some(RefusedFunction { function, reason: reason? })
        });
        AllocatorInside {
            allocator: name(it.kind),
            object: it.path.clone(),
            hooked: hooked.map(|(name, _)| name).collect(),
            refused: refused.collect(),
            samples: it.samples,
            family: it.family,
            missed_frees: it.missed_frees,
            is_upper_bound: it.missed_frees as f64 > MOST_MISSED * it.samples as f64,
        }
    });
    all.collect()
}

/// Why the allocators inside an object are not recorded; `None`: they are.
pub fn obstacle(snapshot: &Snapshot, object: &str) -> Option<String> {
    let path = if object == snapshot.header.exe { "" } else { object };
    let of_object: Vec<_> = of(snapshot).into_iter().filter(|it| it.object == path).collect();
    if of_object.iter().any(|it| !it.hooked.is_empty()) {
        return None;
    }
    let outcome = Inside::of(snapshot.header.inside);
    if outcome == Inside::Off {
        let is_attached = snapshot.header.flags & flags::ATTACHED != 0;
        return Some(if is_attached { ATTACH_INSIDE } else { INSIDE_ON }.into());
    }
    // The function that kept the others from having hooks tells more than they do.
    let is_cause = |it: &&RefusedFunction| Some(it.reason) != reason(MemberState::WithoutFrees);
    let refused = of_object.iter().find_map(|it| it.refused.iter().find(is_cause));
    if let Some(RefusedFunction { function, reason }) = refused {
        return Some(format!("not recorded: {function}: {reason}"));
    }
    let why = match (never(outcome), outcome) {
        (Some(why), _) => why,
        (None, Inside::AtStart) => "its functions have no names, or it came after the start",
        (None, _) => {
            "its functions have no names; build it without \"strip\", or install its debug file under /usr/lib/debug"
        }
    };
    Some(format!("not recorded: {why}"))
}

/// Why no allocator inside an object is recorded, where none is.
pub fn none(snapshot: &Snapshot) -> Option<&'static str> {
    if !snapshot.allocators.is_empty() {
        return None;
    }
    let outcome = Inside::of(snapshot.header.inside);
    Some(match (never(outcome), outcome) {
        (Some(why), _) => why,
        (None, Inside::Off) => "not looked for: started or attached without --inside",
        (None, _) => "no allocator has names in the program, its libraries or their debug files",
    })
}

/// Why no object was looked at, though somebody asked for it.
fn never(outcome: Inside) -> Option<&'static str> {
    match outcome {
        Inside::SecondThread => Some("another thread ran before ramson began"),
        Inside::NoProc => Some("there is no /proc"),
        Inside::Filtered => Some("a seccomp filter was there before ramson began"),
        Inside::Off | Inside::Followed | Inside::AtStart => None,
    }
}

/// Name of the allocators inside objects that have samples, if they are of one kind.
pub fn name_of_all(snapshot: &Snapshot) -> Option<&'static str> {
    let mut names = snapshot.allocators.iter().filter(|it| it.samples > 0).map(|it| name(it.kind));
    let first = names.next()?;
    names.all(|name| name == first).then_some(first)
}

fn name(kind: u32) -> &'static str {
    AllocatorKind::of(kind).unwrap_or(AllocatorKind::Other).name()
}

/// Why a function has no hook; `None` if it has one, or is not there.
fn reason(state: MemberState) -> Option<&'static str> {
    Some(match state {
        MemberState::Absent | MemberState::Hooked | MemberState::Alias => return None,
        MemberState::FirstInstruction => "its first instruction cannot stay in front of a jump",
        MemberState::Unmovable => "an instruction that would have to move cannot",
        MemberState::TooShort => "it is too short for a jump",
        MemberState::JumpInto => "it jumps back into its first instructions",
        MemberState::Differs => {
            "its code is not that of its file, as with a breakpoint or uprobe in it"
        }
        MemberState::ShortJump => "it jumps to another function of the allocator by a short jump",
        MemberState::NotWritten => "the kernel let nothing be written there",
        MemberState::WithoutFrees => "the frees of its blocks could not be counted",
    })
}

impl AllocatorInside {
    /// Says that its live bytes are an upper bound, where they are.
    pub fn defect(&self) -> Option<String> {
        self.is_upper_bound.then(|| {
            format!(
                "{} of {} samples of {} were freed unseen: what it has live is an upper bound, and no leak is looked for in it",
                format_objects(self.missed_frees as f64),
                format_objects(self.samples as f64),
                self.full_name(),
            )
        })
    }

    /// `jemalloc in polars.abi3.so`.
    pub fn full_name(&self) -> String {
        format!("{} in {}", self.allocator, self.object_name())
    }

    /// The object as people call it.
    pub fn object_name(&self) -> &str {
        object_name(&self.object)
    }
}
