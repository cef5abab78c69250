//! Which pointers of a process lead, or will lead, to functions that have hooks.

use super::guest::ListedSlot;
use super::object::{Import, JUMP_SLOT, Object, words};
use ramson_format::control::{ALLOCATING, HOOKED, MOST_LISTED, slot_flags, slot_state};
use ramson_process::identify::base_name;
use ramson_process::{Area, Memory};
use std::collections::{HashMap, HashSet};

/// Slots that were found in one process.
#[derive(Default)]
pub struct Found {
    /// By address within each object.
    pub slots: Vec<ListedSlot>,
    /// Objects that call an allocation function, of which a slot cannot be listed: their tables or pages are not as expected.
    pub unreadable: Vec<u64>,
}

/// Looks through all objects. Which function a slot will lead to that is not bound yet is known where one object alone defines malloc, and in
/// objects that came with the program, for which the loader looks in the order of its list.
pub fn find(memory: &impl Memory, objects: &[Object], areas: &[Area]) -> Found {
    let mut found = Found::default();
    let definers = objects.iter().filter(|object| defines_malloc(memory, object)).count();
    let with_program = with_program(memory, objects);
    let stand_ins =
        objects.first().map_or(HashSet::new(), |first| first.stand_ins(memory, &HOOKED));
    for object in objects {
        let is_known = definers <= 1 || with_program.contains(&object.record);
        let Some(imports) = object.imports(memory, &HOOKED) else {
            found.unreadable.push(object.record);
            continue;
        };
        for import in &imports {
            // A call that passes through the executable's own pointer is seen there.
            if words(memory, import.address).is_some_and(|[to]| stand_ins.contains(&to)) {
                continue;
            }
            match slot_of(memory, object, import, areas, is_known) {
                Some(slot) if found.slots.len() < MOST_LISTED => found.slots.push(slot),
                // A table that is full leaves out an object's other slots, too: a mixture would be odd, not wrong.
                _ if is_allocating(&import.name) => found.unreadable.push(object.record),
                _ => {}
            }
        }
    }
    found.unreadable.dedup();
    found
}

/// Our own, and the loader's (to 2.31 it has one for itself), are nobody else's.
fn defines_malloc(memory: &impl Memory, object: &Object) -> bool {
    let names = ["malloc", "_r_debug", "ramson_control"];
    let found = object.symbols(memory, &names).unwrap_or_default();
    matches!(found[..], [Some(_), None, None])
}

/// The records of the objects that the executable needs, and those need in turn.
fn with_program(memory: &impl Memory, objects: &[Object]) -> HashSet<u64> {
    let names: HashMap<String, &Object> = objects
        .iter()
        .flat_map(|object| {
            let soname = object.soname(memory).map(|name| (name, object));
            soname.into_iter().chain([(base_name(&object.name).to_owned(), object)])
        })
        .collect();
    let mut left: Vec<&Object> = objects.first().into_iter().collect();
    let mut found = HashSet::new();
    while let Some(object) = left.pop() {
        if found.insert(object.record) {
            let needed = object.needed(memory);
            left.extend(needed.iter().filter_map(|name| names.get(base_name(name))));
        }
    }
    found
}

fn is_allocating(name: &str) -> bool {
    HOOKED[..ALLOCATING].contains(&name)
}

fn slot_of(
    memory: &impl Memory,
    object: &Object,
    import: &Import,
    areas: &[Area],
    is_lazy_known: bool,
) -> Option<ListedSlot> {
    let [before] = words(memory, import.address)?;
    let area_of = |address: u64| {
        let next = areas.partition_point(|area| area.end <= address);
        areas.get(next).filter(|area| area.contains(address))
    };
    let area = area_of(import.address)?;
    if !import.address.is_multiple_of(8)
        || area.permissions[0] != b'r'
        || area.permissions[2..] != *b"-p"
    {
        return None;
    }
    let is_in_own_code = area_of(before).is_some_and(|code| {
        code.permissions[2] == b'x' && code.inode == area.inode && code.device == area.device
    });
    let is_lazy = import.kind == JUMP_SLOT && is_in_own_code && import.own != Some(before);
    let is_lazy_known = is_lazy_known && !(import.own.is_some() && object.is_symbolic());
    if is_lazy && !is_lazy_known {
        return None;
    }
    Some(ListedSlot {
        object: object.record,
        dynamic: object.dynamic_at,
        address: import.address,
        before,
        hook: HOOKED.iter().position(|name| *name == import.name)? as u64,
        flags: if is_lazy { slot_flags::LAZY } else { 0 },
        state: slot_state::LISTED,
    })
}

/// How many objects call an allocation function through slots, and the records of those that do so unseen.
pub fn coverage(found: &Found, after: &[ListedSlot]) -> (usize, Vec<u64>) {
    let allocating = after
        .iter()
        .filter(|slot| HOOKED.get(slot.hook as usize).is_some_and(|name| is_allocating(name)));
    let mut objects: Vec<(u64, bool)> =
        allocating.map(|slot| (slot.object, slot.is_seen())).collect();
    objects.extend(found.unreadable.iter().map(|&record| (record, false)));
    objects.sort_unstable();
    let mut records: Vec<u64> = objects.iter().map(|(record, _)| *record).collect();
    records.dedup();
    let unseen = |record: &u64| objects.iter().any(|(other, is_seen)| other == record && !is_seen);
    let missed: Vec<u64> = records.iter().copied().filter(unseen).collect();
    (records.len(), missed)
}
