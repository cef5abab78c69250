//! Code that a language's run time compiled or interprets: what the run time calls it in a perf map, and what its programmers do.

use serde::Serialize;
use std::path::Path;

/// Prefixes that V8 puts before the name of a function, by the way in which the function runs.
const V8_KINDS: [&str; 6] =
    ["JS:", "LazyCompile:", "Function:", "InterpretedFunction:", "Eval:", "Script:"];
/// Characters that V8 puts before the name, by the compiler: none, Sparkplug, Maglev, TurboFan.
const V8_TIERS: [char; 4] = ['~', '^', '+', '*'];

/// The language of a function that a run time compiled or interprets.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "names of languages")]
pub enum Language {
    Python,
    JavaScript,
    Java,
}

/// A function as its language names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompiledFunction<'a> {
    /// Which language that is.
    pub language: Language,
    /// Qualified; Java's with the types of its parameters.
    pub name: &'a str,
    /// Its source file; empty if the run time does not tell it.
    pub file: &'a str,
    /// The line at which the function begins there, 1-based; 0 if unknown.
    pub line: u32,
}

impl Language {
    /// The name, as pprof's label `language` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::Java => "java",
        }
    }

    /// Whether its run time compiles functions into their callers, so that these have their frames no longer.
    pub fn has_inlining_compiler(self) -> bool {
        self != Self::Python
    }

    /// The language whose run time a program is, as far as the name of its file tells.
    pub fn of_program(path: &Path) -> Option<Self> {
        match path.file_name()?.to_str()? {
            "node" | "nodejs" => Some(Self::JavaScript),
            "java" => Some(Self::Java),
            name => {
                let version = name.strip_prefix("python")?;
                let version = version.strip_prefix('3').unwrap_or(version);
                (version.is_empty() || version.starts_with('.')).then_some(Self::Python)
            }
        }
    }

    /// The language of the function that a run time calls `system_name`.
    pub fn of(system_name: &str) -> Option<Self> {
        CompiledFunction::parse(system_name).map(|function| function.language)
    }
}

impl<'a> CompiledFunction<'a> {
    /// From a perf map's name. `None`: it names the run time's own code, or has another form.
    pub fn parse(name: &'a str) -> Option<Self> {
        python(name).or_else(|| javascript(name)).or_else(|| java(name))
    }
}

/// `py::QUALIFIED_NAME:FILE`.
fn python(name: &str) -> Option<CompiledFunction<'_>> {
    let (name, file) = name.strip_prefix("py::")?.split_once(':')?;
    Some(CompiledFunction { language: Language::Python, name, file, line: 0 })
}

/// `KIND:TIER NAME FILE:LINE:COLUMN` without a space before the name, which may be empty or contain spaces.
fn javascript(name: &str) -> Option<CompiledFunction<'_>> {
    let rest = V8_KINDS.iter().find_map(|kind| name.strip_prefix(kind))?;
    let rest = rest.strip_prefix(V8_TIERS).unwrap_or(rest);
    let (place, _column) = rest.rsplit_once(':')?;
    let (place, line) = place.rsplit_once(':')?;
    let line = line.parse().ok()?;
    let of_path = |start| place.find(start);
    let space = [" /", " file:", " node:"].into_iter().filter_map(of_path).min();
    let space = space.or_else(|| place.rfind(' '))?;
    let name = if space == 0 { "(anonymous)" } else { &place[..space] };
    let file = &place[space + 1..];
    Some(CompiledFunction { language: Language::JavaScript, name, file, line })
}

/// `TYPE PACKAGE.CLASS.METHOD(TYPES)`.
fn java(name: &str) -> Option<CompiledFunction<'_>> {
    let (_, rest) = name.strip_suffix(')')?.split_once(' ')?;
    let (method, _types) = rest.split_once('(')?;
    let is_method = method.contains('.') && !method.contains([' ', ':', '/']);
    let name = &name[name.len() - rest.len() - 1..];
    is_method.then_some(CompiledFunction { language: Language::Java, name, file: "", line: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str) -> Option<(&str, &str, &str, u32)> {
        let function = CompiledFunction::parse(name)?;
        Some((function.language.name(), function.name, function.file, function.line))
    }

    #[test]
    fn programs_are_known_by_file() {
        for (file, expected) in [
            ("/usr/bin/python3", Some(Language::Python)),
            ("/usr/bin/python3.12", Some(Language::Python)),
            ("/srv/venv/bin/python", Some(Language::Python)),
            ("/usr/bin/node", Some(Language::JavaScript)),
            ("/usr/lib/jvm/java-17-openjdk-amd64/bin/java", Some(Language::Java)),
            ("/usr/bin/pythonw", None),
            ("/usr/bin/javac", None),
            ("/usr/bin/node_exporter", None),
        ] {
            assert_eq!(Language::of_program(Path::new(file)), expected, "{file}");
        }
    }

    #[test]
    fn names_of_python_3_12() {
        assert_eq!(
            parsed("py::load_table:/srv/a.py"),
            Some(("python", "load_table", "/srv/a.py", 0))
        );
        assert_eq!(parsed("py::<module>:<string>"), Some(("python", "<module>", "<string>", 0)));
        assert_eq!(
            parsed("py::keep.<locals>.<lambda>:/srv/a:b.py"),
            Some(("python", "keep.<locals>.<lambda>", "/srv/a:b.py", 0))
        );
        assert_eq!(parsed("py::module_"), None);
    }

    #[test]
    fn names_of_node_18_and_20() {
        let javascript = |name, file, line| Some(("javascript", name, file, line));
        assert_eq!(parsed("JS:*loadTable /srv/n.js:2:19"), javascript("loadTable", "/srv/n.js", 2));
        assert_eq!(
            parsed("LazyCompile:~get foo /srv/a b.js:2:18"),
            javascript("get foo", "/srv/a b.js", 2)
        );
        assert_eq!(parsed("JS:^ /srv/n.js:3:90"), javascript("(anonymous)", "/srv/n.js", 3));
        assert_eq!(parsed("JS:~emit node:events:465:44"), javascript("emit", "node:events", 465));
        assert_eq!(parsed("JS:*f file:///srv/m.mjs:1:1"), javascript("f", "file:///srv/m.mjs", 1));
        assert_eq!(
            parsed("JS:~run evalmachine.<anonymous>:1:9"),
            javascript("run", "evalmachine.<anonymous>", 1)
        );
        for own in ["Builtin:CEntry_Return1", "BytecodeHandler:Ldar", "RegExp:(a|b) c", "JS:~x"] {
            assert_eq!(parsed(own), None, "{own}");
        }
    }

    #[test]
    fn names_of_java_17() {
        let java = |name| Some(("java", name, "", 0));
        assert_eq!(parsed("void J.parseRow(int)"), java("J.parseRow(int)"));
        assert_eq!(
            parsed("void java.nio.DirectByteBuffer$Deallocator.<init>(long, long, int)"),
            java("java.nio.DirectByteBuffer$Deallocator.<init>(long, long, int)")
        );
        for own in [
            "I2C/C2I adapters",
            "StubRoutines (1)",
            "vtable chunks",
            "Interpreter",
            "main",
            "_ZN1a1fEv",
            "void a::f(int)",
            "f.cold",
        ] {
            assert_eq!(parsed(own), None, "{own}");
        }
    }
}
