//! Names of D functions: <https://dlang.org/spec/abi.html#name_mangling>. As `c++filt --format=dlang` writes them, without the
//! parameters of functions.

mod types;

/// Names nested in each other, in template arguments and by references back.
const MAX_DEPTH: u32 = 64;
/// References back can double a name again and again.
const MAX_BYTES: usize = 64 << 10;

/// The source's name of a function or variable. `None`: it is no such name, or a part of it is unknown.
pub fn demangle(name: &str) -> Option<String> {
    let rest = name.strip_prefix("_D").filter(|_| name.is_ascii())?;
    let mut reader = Reader { text: name, at: name.len() - rest.len(), depth: 0, written: 0 };
    let qualified = reader.mangled()?;
    (reader.at == name.len() && qualified.contains('.')).then_some(qualified)
}

struct Reader<'a> {
    text: &'a str,
    /// Where in the whole name, in bytes: references back count from there.
    at: usize,
    depth: u32,
    /// Bytes of all parts so far, with those that stand twice.
    written: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn eat(&mut self, prefix: &str) -> bool {
        let is_there = self.rest().starts_with(prefix);
        self.at += if is_there { prefix.len() } else { 0 };
        is_there
    }

    fn number(&mut self) -> Option<usize> {
        let rest = self.rest();
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        self.at += digits;
        rest[..digits].parse().ok()
    }

    fn take(&mut self, bytes: usize) -> Option<&'a str> {
        let part = self.rest().get(..bytes)?;
        self.at += bytes;
        Some(part)
    }

    /// What `part` reads, one level deeper.
    fn nested(&mut self, part: impl FnOnce(&mut Self) -> Option<String>) -> Option<String> {
        self.depth += 1;
        let read = (self.depth <= MAX_DEPTH).then(|| part(self))?;
        self.depth -= 1;
        self.written += read.as_ref()?.len();
        read.filter(|_| self.written <= MAX_BYTES)
    }

    /// What `part` reads where a `Q` and its number point back to.
    fn back(&mut self, part: impl FnOnce(&mut Self) -> Option<String>) -> Option<String> {
        let from = self.at;
        if !self.eat("Q") {
            return None;
        }
        let mut distance = 0_usize;
        loop {
            let letter = self.take(1)?.bytes().next()?;
            let (digit, is_last) = match letter {
                b'A'..=b'Z' => (letter - b'A', false),
                b'a'..=b'z' => (letter - b'a', true),
                _ => return None,
            };
            distance = distance.checked_mul(26)?.checked_add(usize::from(digit))?;
            if is_last {
                break;
            }
        }
        let after = self.at;
        self.at = from.checked_sub(distance).filter(|_| distance > 0)?;
        let read = self.nested(part);
        self.at = after;
        read
    }

    /// Whether a symbol's name begins here, not a type: types, too, may be references back.
    fn is_symbol(&mut self) -> bool {
        match self.peek() {
            Some('0'..='9') => true,
            Some('_') => ["__T", "__U"].iter().any(|template| self.rest().starts_with(template)),
            Some('Q') => {
                let here = self.at;
                let of_name = |reader: &mut Self| {
                    (reader.peek().is_some_and(|c| c.is_ascii_digit())).then(String::new)
                };
                let is_name = self.back(of_name).is_some();
                self.at = here;
                is_name
            }
            _ => false,
        }
    }

    fn qualified(&mut self) -> Option<String> {
        self.nested(|reader| {
            let mut parts = Vec::new();
            while reader.is_symbol() {
                // Parts of no name are of a scope of the compiler's.
                parts.extend(Some(reader.symbol()?).filter(|part| !part.is_empty()));
                let here = reader.at;
                // A function that something is nested in has its type behind its name.
                let _with_this = reader.eat("M");
                reader.modifiers();
                let is_nested = reader.function().is_some() && reader.is_symbol();
                if !is_nested {
                    reader.at = here;
                }
            }
            (!parts.is_empty()).then(|| parts.join("."))
        })
    }

    fn symbol(&mut self) -> Option<String> {
        match self.peek()? {
            'Q' => self.back(Self::symbol),
            '_' => self.template(),
            _ => {
                let length = self.number()?;
                // Compilers before 2.077 write a template's length, too.
                if ["__T", "__U"].iter().any(|template| self.rest().starts_with(template)) {
                    let end = self.at + length;
                    return self.template().filter(|_| self.at == end);
                }
                let name = self.take(length)?;
                let named = match name {
                    "__ctor" => "this",
                    "__dtor" => "~this",
                    "__postblit" => "this(this)",
                    _ => name,
                };
                Some(named.into())
            }
        }
    }

    fn template(&mut self) -> Option<String> {
        self.nested(|reader| {
            let _begins = reader.eat("__T") || reader.eat("__U");
            let name = reader.symbol()?;
            let mut arguments = Vec::new();
            while !reader.eat("Z") {
                arguments.push(reader.argument()?);
            }
            Some(format!("{name}!({})", arguments.join(", ")))
        })
    }

    fn argument(&mut self) -> Option<String> {
        let _specialised = self.eat("H");
        match self.take(1)? {
            "T" => self.type_(),
            "V" => {
                let kind = self.peek();
                let named = self.type_()?;
                self.value(kind?, &named)
            }
            "S" if self.eat("_D") => self.mangled(),
            "S" => self.alias(),
            "X" => {
                let length = self.number()?;
                self.take(length).map(str::to_owned)
            }
            _ => None,
        }
    }

    /// A symbol as an argument; compilers before 2.077 write its length first.
    fn alias(&mut self) -> Option<String> {
        let here = self.at;
        if let Some(length) = self.number()
            && self.eat("_D")
            && let end = self.at - 2 + length
            && let Some(name) = self.mangled()
            && self.at == end
        {
            return Some(name);
        }
        self.at = here;
        self.qualified()
    }

    /// What follows `_D`: a name, and its type, which is left out.
    fn mangled(&mut self) -> Option<String> {
        let name = self.qualified()?;
        let is_whole = self.eat("Z") || {
            let _with_this = self.eat("M");
            self.modifiers();
            self.type_().is_some()
        };
        is_whole.then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_as_cxxfilt_names_them_without_parameters() {
        for (mangled, name) in [
            ("_D3app5cache5Table4growFmZPv", "app.cache.Table.grow"),
            ("_D3app5cache5Cache4loadMFiZv", "app.cache.Cache.load"),
            ("_D3app5cache4mainFZ5innerMFNaNbNiNfiZi", "app.cache.main.inner"),
            ("_D3app5cache__T5CacheTPvZQk4loadMFiZv", "app.cache.Cache!(void*).Cache.load"),
            // Arguments of every kind, as libgphobos 12 has them.
            (
                "_D3std7variant__T8VariantNVmi32ZQp__T6__ctorTSQBs11concurrency3TidZQBeMFNcQBdZSQCzQCy__TQCtVmi32ZQDc",
                "std.variant.VariantN!(32uL).VariantN.this!(std.concurrency.Tid).this",
            ),
            (
                "_D3std3uni__T8CowArrayTSQwQu8GcPolicyZQz__T7opIndexZQjMxFNaNbNiNfmZk",
                "std.uni.CowArray!(std.uni.GcPolicy).CowArray.opIndex!().opIndex",
            ),
            (
                "_D3std9algorithm7sorting__T5sort5SQBg10functional__T9binaryFunVAyaa5_61203c2062VQra1_61VQza1_62ZQBsTAQBmZQDaFNaNbNiNfQrZv",
                "std.algorithm.sorting.sort5!(std.functional.binaryFun!(\"a < b\", \"a\", \"b\").binaryFun, immutable(char)[][]).sort5",
            ),
            (
                "_D3std9exception__T11doesPointToTDFmmmmZiTSQBp3net4curl3FTP4ImplTvZQBwFNaNbNiNeKxDQBwKxSQDiQBtQBsQBqQBpZb",
                "std.exception.doesPointTo!(int delegate(ulong, ulong, ulong, ulong), std.net.curl.FTP.Impl, void).doesPointTo",
            ),
            (
                "_D3std5range__T11SortedRangeTACQBd3zip13ArchiveMemberSQCaQx10ZipArchive5buildMFNaNfZ9__lambda6VEQDqQDp18SortedRangeOptionsi0ZQEg8popFrontMFNaNbNiNfZv",
                "std.range.SortedRange!(std.zip.ArchiveMember[], std.zip.ZipArchive.build.__lambda6, 0).SortedRange.popFront",
            ),
            // Of a compiler before 2.077.
            ("_D3app14__T5CacheTAyaZ5Cache4loadMFZv", "app.Cache!(immutable(char)[]).Cache.load"),
        ] {
            assert_eq!(demangle(mangled).as_deref(), Some(name), "{mangled}");
        }
    }

    #[test]
    fn what_is_no_such_name_stays_as_it_is() {
        for raw in [
            "_Dmain",
            "_D",
            "_D99x",
            "_D3ap",
            "_D18446744073709551616a",
            "_D2é",
            "_D1aQb",
            "_D1a1bFQaZv",
        ] {
            assert_eq!(demangle(raw), None, "{raw}");
        }
    }

    #[test]
    fn names_that_repeat_themselves_cost_no_more_than_a_long_one() {
        // Each argument is a type that has the one before twice.
        let doubled = |times: usize| {
            let first = if times > 0 { "THQeQg" } else { "" };
            let more = "THQhQj".repeat(times.saturating_sub(1));
            format!("_D1a__T1bTAi{first}{more}Z1cFZv")
        };
        let short = "a.b!(int[], int[][int[]], int[][int[]][int[][int[]]]).c";
        assert_eq!(demangle(&doubled(2)).as_deref(), Some(short));
        assert_eq!(demangle(&doubled(40)), None);
        let nested = format!("_D1a__T1bT{}iZ1cFZv", "A".repeat(100_000));
        assert_eq!(demangle(&nested), None);
    }
}
