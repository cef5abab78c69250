//! Names of functions as people read them.

/// A function's name without parameters, template arguments and the return type that templates have.
pub fn short_name(name: &str) -> String {
    // An operator's own < or ( is not an argument list, nor is the name of an anonymous namespace.
    if name.contains("operator") || name.contains("(anonymous") || name.starts_with(['<', '(', '{'])
    {
        return name.to_owned();
    }
    let name = name.strip_suffix(" const").unwrap_or(name);
    let mut short = String::new();
    let mut depth = 0usize;
    let mut is_list = false;
    let mut last_word = 0;
    let mut before = ' ';
    for character in name.chars() {
        let outer = depth;
        match character {
            '<' | '(' => depth += 1,
            '>' if before == '-' => {}
            '>' | ')' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => last_word = short.len() + 1,
            _ => {}
        }
        if outer == 0 && depth == 1 {
            is_list = is_argument_list(&mut short, character);
        }
        if !is_list || (outer, depth) == (0, 0) {
            short.push(character);
        }
        before = character;
    }
    // Only what has parameters has a return type; names of compiled code may have any text in them.
    if is_list && name.ends_with(')') {
        short.drain(..last_word);
    }
    short
}

/// Whether arguments follow `name`, with `opening` before them. Rust's come after `::` and D's after `!`, which go with them. After a dot, a space
/// or a single colon it is Go's `(*Receiver)`, Python's `<lambda>` or some other runtime's text.
fn is_argument_list(name: &mut String, opening: char) -> bool {
    if opening == '<' && name.ends_with("::") && !name.starts_with("py::") {
        name.truncate(name.len() - 2);
        return true;
    }
    if opening == '(' && name.ends_with('!') {
        name.pop();
        return true;
    }
    !name.ends_with(['.', ' ', ':'])
}

/// A stack's short names, in which two or more neighbouring addresses of stripped code are one `2 frames without names`.
pub fn fold_addresses(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut folded: Vec<String> = Vec::new();
    let mut addresses = 0;
    for name in names {
        addresses = if is_address(&name) { addresses + 1 } else { 0 };
        if addresses > 1 {
            folded.pop();
            folded.push(format!("{addresses} frames without names"));
        } else {
            folded.push(name);
        }
    }
    folded
}

/// Whether it is the name of a frame without one: `libfoo.so+0x1234` or `0x7f…`.
pub fn is_address(name: &str) -> bool {
    let digits = name.strip_prefix("0x").or_else(|| Some(name.rsplit_once("+0x")?.1));
    digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_addresses_are_one_frame() {
        let folded = |names: &[&str]| fold_addresses(names.iter().map(|&name| name.into()));
        let stack = ["new", "a+0x1f", "0x7f00", "libb.so+0x2", "main", "a+0x3"];
        assert_eq!(folded(&stack), ["new", "3 frames without names", "main", "a+0x3"]);
        assert_eq!(folded(&["a+0xg", "f+0x1:12"]), ["a+0xg", "f+0x1:12"]);
    }

    #[test]
    fn short_names_have_no_arguments() {
        assert_eq!(short_name("a::B<int, C<D> >::f(std::string const&) const"), "a::B::f");
        assert_eq!(short_name("void a::f<int>(int) const"), "a::f");
        assert_eq!(short_name("JS:*total /srv/app.js:3:15"), "JS:*total /srv/app.js:3:15");
        assert_eq!(short_name("zmalloc_usable"), "zmalloc_usable");
        assert_eq!(short_name("X::operator<(X const&)"), "X::operator<(X const&)");
        assert_eq!(short_name("long* Pool::get<long>(unsigned long)"), "Pool::get");
        assert_eq!(short_name("f(int)::Local::g(char (*)(int)) const"), "f::Local::g");
        assert_eq!(
            short_name("core::slice::sort::<impl [T]>::merge<u8>"),
            "core::slice::sort::merge"
        );
        assert_eq!(short_name("a::call::<fn() -> u8>::{closure#0}"), "a::call::{closure#0}");
    }

    #[test]
    fn other_languages_lose_arguments_only() {
        for name in [
            "net/http.(*conn).serve",
            "main.(*Tree[go.shape.int]).Add.func1",
            "StubRoutines (1)",
            "py::keep.<locals>.<lambda>:/srv/app.py",
            "RegExp:(a|b) c",
        ] {
            assert_eq!(short_name(name), name);
        }
        assert_eq!(
            short_name("app.Cache!(int, void function(int)).Cache.load!(3uL).load"),
            "app.Cache.Cache.load.load"
        );
        assert_eq!(short_name("void J.main(java.lang.String[])"), "J.main");
    }
}
