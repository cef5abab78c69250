//! Simple schemes by which compilers make one linker's name of a module's and a function's: D's without templates, OCaml's, gfortran's.

/// Further parts of a name are no name any more.
const MAX_PARTS: usize = 64;

/// The source's name for a linker's name. `None`: it is of no such scheme.
pub fn demangle(name: &str) -> Option<String> {
    d(name).or_else(|| ocaml(name)).or_else(|| fortran(name))
}

/// `_D`, identifiers each after its length, and the function's type: https://dlang.org/spec/abi.html#name_mangling. Template
/// instances and nested functions keep their raw name: without their arguments, different ones would look the same.
fn d(name: &str) -> Option<String> {
    let mut rest = name.strip_prefix("_D")?;
    let mut parts = Vec::new();
    while rest.starts_with(|first: char| first.is_ascii_digit()) && parts.len() < MAX_PARTS {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let (length, after) = (rest[..digits].parse().ok()?, &rest[digits..]);
        let (part, after) = after.split_at_checked(length)?;
        if part.starts_with("__T") {
            return None;
        }
        parts.push(part);
        rest = after;
    }
    // `F` a function of C's kind … `M` one with `this`; what follows is its type alone.
    let is_function = rest.strip_prefix('M').unwrap_or(rest).starts_with('F');
    let has_more = rest.contains("__T") || rest.contains(|letter: char| letter.is_ascii_digit());
    (parts.len() > 1 && is_function && !has_more).then(|| parts.join("."))
}

/// `caml`, modules with `__` between them, and the function with a number that the compiler gave it.
fn ocaml(name: &str) -> Option<String> {
    let path = name
        .strip_prefix("caml")
        .filter(|path| path.starts_with(|c: char| c.is_ascii_uppercase()))?;
    let (named, number) = path.rsplit_once('_')?;
    let is_numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let (modules, function) = named.rsplit_once("__")?;
    // All functions without a name are called `fun`.
    let function = if function == "fun" { &path[modules.len() + 2..] } else { function };
    (is_numbered && !function.is_empty())
        .then(|| format!("{}.{function}", modules.replace("__", ".")))
}

/// `__MODULE_MOD_PROCEDURE`.
fn fortran(name: &str) -> Option<String> {
    let (module, procedure) = name.strip_prefix("__")?.split_once("_MOD_")?;
    (!module.is_empty() && !procedure.is_empty()).then(|| format!("{module}::{procedure}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_gdc_12() {
        assert_eq!(
            demangle("_D3app5cache5Table4growFmZPv").as_deref(),
            Some("app.cache.Table.grow")
        );
        assert_eq!(
            demangle("_D3app5cache5Cache4loadMFiZv").as_deref(),
            Some("app.cache.Cache.load")
        );
        for raw in [
            "_D3app5cache__T5CacheTPvZQk4loadMFiZv",
            "_D3app5cache4mainFZ5innerMFNaNbNiNfiZi",
            "_D3app5cache__T6helperSQvQt4mainFZ9__lambda2ZQBeMFNaNbNfiZAi",
            "_Dmain",
            "_D",
            "_D99x",
            "_D3ap",
            "_D18446744073709551616a",
            "_D2é",
        ] {
            assert_eq!(demangle(raw), None, "{raw}");
        }
    }

    #[test]
    fn names_of_ocamlopt_4_13() {
        assert_eq!(demangle("camlO__load_table_82").as_deref(), Some("O.load_table"));
        assert_eq!(demangle("camlStdlib__List__iter_350").as_deref(), Some("Stdlib.List.iter"));
        assert_eq!(demangle("camlO__fun_517").as_deref(), Some("O.fun_517"));
        for raw in ["camlO__entry", "caml_alloc", "caml_main", "camlO__1", "caml"] {
            assert_eq!(demangle(raw), None, "{raw}");
        }
    }

    #[test]
    fn names_of_gfortran_12() {
        assert_eq!(demangle("__cache_MOD_load_table").as_deref(), Some("cache::load_table"));
        for raw in ["MAIN__", "load_table_", "___MOD_x", "__a_MOD_"] {
            assert_eq!(demangle(raw), None, "{raw}");
        }
    }
}
