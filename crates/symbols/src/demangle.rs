//! From the linker's name to the one in the source. Names come from files that anybody may have made, so length,
//! depth and output are bounded; beyond the bounds the raw name stands.

use crate::schemes;
use std::fmt::{self, Write};

/// No compiler's name is longer than this and still of use to a reader.
const MAX_MANGLED_BYTES: usize = 16 << 10;
const MAX_DEMANGLED_BYTES: usize = 16 << 10;
/// Depth of both parsing and printing; 96 fits into any thread's stack even in a debug build.
const MAX_DEPTH: u32 = 96;
/// Steps of printing. Substitutions can make a tree that is exponentially larger than its name and prints nothing.
const MAX_STEPS: u32 = 1 << 17;

/// The source's name for a linker's name: C++ with parameters, Rust without the hash, OCaml and Fortran without either. `None` if `name` is not a
/// mangled name (C), or not one that can be demangled within bounds.
pub fn demangle(name: &str) -> Option<String> {
    if name.len() > MAX_MANGLED_BYTES {
        return None;
    }
    let may_be_rust = name.starts_with("_R") || name.starts_with("_ZN");
    if let Some(rust) = may_be_rust.then(|| demangle_rust(name)).flatten() {
        return Some(rust);
    }
    if name.starts_with("_Z") || name.starts_with("_GLOBAL_") || name.starts_with("___Z") {
        return demangle_cpp(name).or_else(|| path_only(name));
    }
    schemes::demangle(name)
}

/// The source's name for one that another tool wrote: as `demangle`, and of a Rust name that only a C++ demangler has seen.
/// `None`: it is the source's name already.
pub fn demangle_written(name: &str) -> Option<String> {
    match name.as_bytes() {
        [b'_', b'Z' | b'R', ..] | [b'_', b'_', b'_', b'Z', ..] => demangle(name),
        _ => without_rust_hash(name),
    }
}

/// `_$LT$T$u20$as$u20$a..B$GT$::f::h0123456789abcdef` → `<T as a::B>::f`.
fn without_rust_hash(name: &str) -> Option<String> {
    const HASH_DIGITS: usize = 16;
    let end = name.rfind("::h")?;
    let hash = name.get(end + 3..end + 3 + HASH_DIGITS)?;
    let suffix = &name[end + 3 + HASH_DIGITS..];
    let is_hash = hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !is_hash || !(suffix.is_empty() || suffix.starts_with(['.', ' '])) {
        return None;
    }
    let path = &name[..end];
    let parts = path.split("::").chain([&name[end + 2..end + 3 + HASH_DIGITS]]);
    let mangled: String = parts.map(|part| format!("{}{part}", part.len())).collect();
    Some(demangle_rust(&format!("_ZN{mangled}E")).unwrap_or_else(|| path.to_owned()))
}

fn demangle_rust(name: &str) -> Option<String> {
    let parsed = rustc_demangle::try_demangle(name).ok()?;
    let mut out = Bounded::default();
    write!(out, "{parsed:#}").ok()?;
    Some(out.text)
}

fn demangle_cpp(name: &str) -> Option<String> {
    let parse = cpp_demangle::ParseOptions::default().recursion_limit(MAX_DEPTH);
    let print = cpp_demangle::DemangleOptions::new().recursion_limit(MAX_DEPTH);
    let print = print.hide_expression_literal_types();
    let symbol = cpp_demangle::Symbol::new_with_options(name.as_bytes(), &parse).ok()?;
    let mut out = Bounded::default();
    symbol.structured_demangle(&mut out, &print).ok()?;
    Some(tidied(out.text))
}

/// cpp_demangle prints an empty template pack as nothing between its separators: `f<int, >(int, &&)`. No type is
/// empty or only a reference, so these can go. And it does not know a namespace without a name before a static.
fn tidied(mut text: String) -> String {
    for (empty, rest) in [
        (", >", ">"),
        (", &&)", ")"),
        (", &)", ")"),
        (", const&)", ")"),
        (", ,", ","),
        (", &&,", ","),
        (", &,", ","),
        (", const&,", ","),
        ("_GLOBAL__N_1::", "(anonymous namespace)::"),
        ("<, ", "<"),
        ("(&&, ", "("),
        ("(&, ", "("),
        ("(const&, ", "("),
    ] {
        if text.contains(empty) {
            text = text.replace(empty, rest);
        }
    }
    for alone in ["(&&)", "(&)", "(const&)"] {
        // After a space it is a reference to a function: `void (&&)(int)`.
        while let Some(at) = text.find(alone).filter(|&at| !text[..at].ends_with(' ')) {
            text.replace_range(at..at + alone.len(), "()");
        }
    }
    text
}

/// The plain part of a C++ name whose types nobody here can read: `std::fill<…>(…)`.
fn path_only(name: &str) -> Option<String> {
    let mut rest = name.strip_prefix("_Z")?;
    let mut path = String::new();
    let is_nested = rest.starts_with('N');
    rest = rest.trim_start_matches(['N', 'L', 'K', 'V', 'r']);
    if let Some(after) = rest.strip_prefix("St") {
        path.push_str("std");
        rest = after;
    }
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(count) = rest[..digits].parse::<usize>() else { break };
        let (part, after) = rest[digits..].split_at_checked(count)?;
        path.push_str(if path.is_empty() { "" } else { "::" });
        path.push_str(part);
        rest = after;
        if !is_nested {
            break;
        }
    }
    if path.is_empty() || path == "std" {
        return None;
    }
    if rest.starts_with('I') {
        path.push_str("<…>");
    }
    // A nested name that goes on has parts that were not read: a member of a template, a constructor.
    path.push_str(if is_nested && !rest.starts_with('E') { "…" } else { "(…)" });
    Some(tidied(path))
}

#[derive(Default)]
struct Bounded {
    text: String,
    steps: u32,
}

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.steps += 1;
        if self.steps > MAX_STEPS || self.text.len() + part.len() > MAX_DEMANGLED_BYTES {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_tools_become_the_source_s() {
        for (written, name) in [
            ("_ZN5store5Cache4growEim", "store::Cache::grow(int, unsigned long)"),
            ("_ZN4shop6orders4load17h0123456789abcdefE", "shop::orders::load"),
            ("_RNvNtCs1234_4shop6orders4load", "shop::orders::load"),
            ("_RNvCs1234_7___rustc11___rdl_alloc", "__rustc::__rdl_alloc"),
            ("shop::orders::load::hfedcba9876543210", "shop::orders::load"),
            ("shop::load::hfedcba9876543210.llvm.77", "shop::load"),
            (
                "_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$shop..Sum$GT$::sum::h0123456789abcdef",
                "<alloc::vec::Vec<T> as shop::Sum>::sum",
            ),
            (
                "<shop::Cart as core::clone::Clone>::clone::h0123456789abcdef",
                "<shop::Cart as core::clone::Clone>::clone",
            ),
            ("a::_$u7b$$u7b$closure$u7d$$u7d$::h0123456789abcdef", "a::{{closure}}"),
            ("a::é::h0123456789abcdef", "a::é"),
        ] {
            assert_eq!(demangle_written(written).as_deref(), Some(name), "{written}");
        }
        for name in
            ["main", "a::h0123", "a::h0123456789abcdef0", "net/http.(*conn).serve", "", "_start"]
        {
            assert_eq!(demangle_written(name), None, "{name}");
        }
    }
}
