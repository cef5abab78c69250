//! Simple schemes by which compilers make one linker's name of a module's and a function's: OCaml's and gfortran's.

/// The source's name for a linker's name. `None`: it is of no such scheme.
pub fn demangle(name: &str) -> Option<String> {
    ocaml(name).or_else(|| fortran(name))
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
