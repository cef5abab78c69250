//! One thread's look-ups: the functions at an address from Go's own table or DWARF, their names from there or the symbol table.
//!
//! Parsed structures borrow the sections, exist for one question, and belong to one thread: shared ones would count references, and threads would
//! wait for each other at that counter.

use hashbrown::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use crate::budget::Budget;
use crate::demangle::demangle;
use crate::frame::Frame;
use crate::lines::{LineFinder, Lines};
use crate::names::Names;
use crate::texts::Texts;
use ramson_pclntab::Pclntab;

/// More threads would wait for memory, and each holds what it has parsed.
const MAX_THREADS: usize = 8;

/// How many threads look at one file.
pub fn threads() -> usize {
    available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS)
}

/// Sources that name addresses on one thread.
pub(crate) struct Worker<'a> {
    go: Option<&'a Pclntab<'static>>,
    /// `Err`: why there are no lines, although there is debug information.
    lines: Option<Result<LineFinder<'a>, String>>,
    /// In the order of trust.
    names: &'a [Names],
    /// A function is at many addresses.
    texts: Texts,
    demangled: HashMap<Arc<str>, Option<Arc<str>>>,
}

impl<'a> Worker<'a> {
    pub fn new(
        go: Option<&'a Pclntab<'static>>,
        lines: Option<&'a Lines>,
        names: &'a [Names],
        budget: Budget,
    ) -> Self {
        let lines = lines.map(|lines| lines.finder(&budget));
        Self { go, lines, names, texts: Texts::new(budget), demangled: HashMap::new() }
    }

    /// The frames at `address`, inlined ones first, and why there may be less than there should be.
    pub fn find(&mut self, address: u64) -> (Vec<Frame>, Option<String>) {
        let of_go = self.frames_of_go(address);
        if !of_go.is_empty() {
            return (of_go, self.texts.refusal.clone());
        }
        let mut found = Vec::new();
        let texts = &mut self.texts;
        let damage = match &self.lines {
            Some(Ok(lines)) => {
                let each = lines.find(address, |frame| {
                    let name = frame.name.filter(|name| !name.is_empty());
                    let name = name.and_then(|name| texts.keep(&name));
                    let file = frame.file.and_then(|file| texts.keep(file));
                    found.push((name, file, frame.line));
                });
                each.err()
            }
            Some(Err(reason)) => Some(reason.clone()),
            None => None,
        };
        if found.is_empty() {
            found.push((None, None, 0));
        }
        let start = self.names.iter().find_map(|names| names.start(address));
        let offset = start.and_then(|start| u32::try_from(address - start).ok());
        let outermost = found.len() - 1;
        let mut frames = Vec::with_capacity(found.len());
        for (index, (name, file, line)) in found.into_iter().enumerate() {
            let symbol_address = (index == outermost).then_some(address);
            let Some((function, system_name)) = self.named(name, symbol_address) else { continue };
            frames.push(Frame { function, system_name, file, line, offset });
        }
        (frames, damage.or_else(|| self.texts.refusal.clone()))
    }

    fn frames_of_go(&mut self, address: u64) -> Vec<Frame> {
        let Some(go) = self.go else { return Vec::new() };
        let start = go.start(address);
        let offset = start.and_then(|start| u32::try_from(address - start).ok());
        let frames = go.frames(address).into_iter().filter_map(|frame| {
            let function = self.texts.keep(&frame.function)?;
            let file = frame.file.and_then(|file| self.texts.keep(&file));
            let system_name = function.clone();
            Some(Frame { function, system_name, file, line: frame.line, offset })
        });
        frames.collect()
    }

    /// Function and system name from DWARF's name, or else from the symbol at the address (inlined calls have none).
    fn named(
        &mut self,
        name: Option<Arc<str>>,
        symbol_address: Option<u64>,
    ) -> Option<(Arc<str>, Arc<str>)> {
        if let Some(name) = &name
            && let Some(function) = self.demangled(name)
        {
            return Some((function, name.clone()));
        }
        let symbol = symbol_address
            .and_then(|address| self.names.iter().find_map(|names| names.find(address)));
        let symbol = symbol.and_then(|symbol| self.texts.keep(&symbol));
        let Some(name) = name else {
            let symbol = symbol?;
            return Some((self.demangled(&symbol).unwrap_or_else(|| symbol.clone()), symbol));
        };
        // DWARF may have only the last part of a C++ or Rust name; the linker's then has the rest. It must contain
        // that part, since identical functions may have been folded under another's symbol.
        if let Some(symbol) = symbol
            && let Some(function) = self.demangled(&symbol)
            && function.contains(&*name)
        {
            return Some((function, symbol));
        }
        Some((name.clone(), name))
    }

    fn demangled(&mut self, name: &Arc<str>) -> Option<Arc<str>> {
        if !name.starts_with('_') && !name.starts_with("caml") {
            return None;
        }
        if let Some(known) = self.demangled.get(name) {
            return known.clone();
        }
        let demangled = demangle(name).and_then(|demangled| self.texts.keep(&demangled));
        self.demangled.insert(name.clone(), demangled.clone());
        demangled
    }
}
