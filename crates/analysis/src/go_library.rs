//! Which functions are of Go's own library.

/// The first parts of the names of the packages of Go's library (https://pkg.go.dev/std).
const LIBRARY: [&str; 47] = [
    "archive",
    "bufio",
    "bytes",
    "cmp",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "debug",
    "embed",
    "encoding",
    "errors",
    "expvar",
    "flag",
    "fmt",
    "go",
    "hash",
    "html",
    "image",
    "index",
    "internal",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "path",
    "plugin",
    "reflect",
    "regexp",
    "runtime",
    "slices",
    "sort",
    "strconv",
    "strings",
    "structs",
    "sync",
    "syscall",
    "testing",
    "text",
    "time",
    "unicode",
    "unique",
];

/// Whether a function is of Go's own library, of whose packages none has a domain in front.
pub fn is_of_library(function: &str) -> bool {
    let package = match function.split_once('/') {
        Some((first, _)) => first,
        None => function.split('.').next().unwrap_or_default(),
    };
    LIBRARY.contains(&package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_the_library_are_known() {
        for function in
            ["bytes.growSlice", "net/http.(*conn).serve", "runtime.main", "internal/x.f"]
        {
            assert!(is_of_library(function), "{function}");
        }
        for function in ["main.main", "github.com/a/b.f", "bytes.example/x.f", "shop/cart.Open"] {
            assert!(!is_of_library(function), "{function}");
        }
    }
}
