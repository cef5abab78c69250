//! Types and values in names of D functions.

use super::Reader;

impl Reader<'_> {
    pub(super) fn modifiers(&mut self) -> String {
        let mut modifiers = String::new();
        loop {
            let modifier = match () {
                () if self.eat("x") => " const",
                () if self.eat("y") => " immutable",
                () if self.eat("O") => " shared",
                () if self.eat("Ng") => " inout",
                () => return modifiers,
            };
            modifiers.push_str(modifier);
        }
    }

    /// A function's type without what it returns, which only a pointer or delegate to it has: its parameters.
    pub(super) fn function(&mut self) -> Option<String> {
        let _linkage = ["F", "U", "W", "R", "Y"].iter().find(|kind| self.eat(kind))?;
        // Attributes are `Na` to `Nm`, without `Ng`, `Nh`, `Nk` and `Nn`, with which parameters begin.
        while matches!(self.rest().as_bytes(), [b'N', b'a'..=b'f' | b'i' | b'j' | b'l' | b'm', ..])
        {
            self.at += 2;
        }
        let mut parameters = Vec::new();
        loop {
            let end = match self.peek()? {
                'X' => "...",
                'Y' => ", ...",
                'Z' => "",
                _ => {
                    parameters.push(self.parameter()?);
                    continue;
                }
            };
            self.at += 1;
            return Some(format!("({}{end})", parameters.join(", ")));
        }
    }

    fn parameter(&mut self) -> Option<String> {
        let mut storage = String::new();
        loop {
            let word = match () {
                () if self.eat("M") => "scope ",
                () if self.eat("Nk") => "return ",
                () if self.eat("I") => "in ",
                () if self.eat("J") => "out ",
                () if self.eat("K") => "ref ",
                () if self.eat("L") => "lazy ",
                () => break,
            };
            storage.push_str(word);
        }
        Some(storage + &self.type_()?)
    }

    pub(super) fn type_(&mut self) -> Option<String> {
        self.nested(Self::type_here)
    }

    fn type_here(&mut self) -> Option<String> {
        if self.peek()? == 'Q' {
            return self.back(Self::type_);
        }
        if ["F", "U", "W", "R", "Y"].iter().any(|kind| self.rest().starts_with(kind)) {
            return self.function_type("function");
        }
        let around = |reader: &mut Self, word: &str| Some(format!("{word}({})", reader.type_()?));
        if self.eat("Ng") {
            return around(self, "inout");
        }
        if self.eat("Nh") {
            return around(self, "__vector");
        }
        if self.eat("Nn") {
            return Some("noreturn".into());
        }
        match self.take(1)? {
            "O" => around(self, "shared"),
            "x" => around(self, "const"),
            "y" => around(self, "immutable"),
            "A" => Some(self.type_()? + "[]"),
            "G" => {
                let length = self.number()?;
                Some(format!("{}[{length}]", self.type_()?))
            }
            "H" => {
                let key = self.type_()?;
                Some(format!("{}[{key}]", self.type_()?))
            }
            "P" if self.peek().is_some_and(|kind| "FUWRY".contains(kind)) => self.type_(),
            "P" => Some(self.type_()? + "*"),
            "C" | "S" | "E" | "T" | "I" => self.qualified(),
            "D" => {
                let modifiers = self.modifiers();
                let function = match self.peek()? {
                    'Q' => self.back(|reader| reader.function_type("delegate")),
                    _ => self.function_type("delegate"),
                };
                Some(function? + &modifiers)
            }
            "B" => self.tuple(),
            "z" => match self.take(1)? {
                "i" => Some("cent".into()),
                "k" => Some("ucent".into()),
                _ => None,
            },
            letter => basic(letter).map(str::to_owned),
        }
    }

    fn function_type(&mut self, kind: &str) -> Option<String> {
        let parameters = self.function()?;
        Some(format!("{} {kind}{parameters}", self.type_()?))
    }

    fn tuple(&mut self) -> Option<String> {
        let count = self.number()?;
        let mut types = Vec::new();
        for _ in 0..count {
            types.push(self.type_()?);
        }
        Some(format!("tuple({})", types.join(", ")))
    }

    /// A value of a type, which begins with this letter.
    pub(super) fn value(&mut self, kind: char, named: &str) -> Option<String> {
        match self.peek()? {
            'n' => self.take(1).map(|_| "null".into()),
            'N' => {
                self.at += 1;
                Some(format!("-{}", self.integer(kind)?))
            }
            'i' => {
                self.at += 1;
                self.integer(kind)
            }
            '0'..='9' => self.integer(kind),
            'e' => {
                self.at += 1;
                self.real()
            }
            'a' | 'w' | 'd' => self.string(),
            'A' | 'S' => {
                let is_struct = self.take(1)? == "S";
                let values = self.values()?;
                Some(if is_struct { format!("{named}({values})") } else { format!("[{values}]") })
            }
            'f' => {
                self.at += 1;
                self.eat("_D").then(|| self.mangled())?
            }
            _ => None,
        }
    }

    /// Values of a list. Their types are not told; integers among them stand as such.
    fn values(&mut self) -> Option<String> {
        self.nested(|reader| {
            let count = reader.number()?;
            let mut values = Vec::new();
            for _ in 0..count {
                values.push(reader.value('i', "")?);
            }
            Some(values.join(", "))
        })
    }

    fn integer(&mut self, kind: char) -> Option<String> {
        let value = self.number()?;
        Some(match kind {
            'b' => (value != 0).to_string(),
            'a' | 'u' | 'w' => match char::from_u32(u32::try_from(value).ok()?)? {
                letter @ ' '..='~' => format!("'{letter}'"),
                letter => format!("'\\u{:04x}'", u32::from(letter)),
            },
            'h' | 't' | 'k' => format!("{value}u"),
            'l' => format!("{value}L"),
            'm' => format!("{value}uL"),
            _ => value.to_string(),
        })
    }

    /// As it is written, hexadecimal with `P` before its exponent and `N` for minus.
    fn real(&mut self) -> Option<String> {
        let rest = self.rest();
        let end = rest.find(|letter: char| !(letter.is_ascii_hexdigit() || "NPI".contains(letter)));
        self.take(end?).map(str::to_owned)
    }

    fn string(&mut self) -> Option<String> {
        let width = self.take(1)?;
        let bytes = self.number()?;
        let digits = self.eat("_").then(|| self.take(bytes.checked_mul(2)?))??;
        let text: Option<String> = (0..bytes)
            .map(|at| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok())
            .map(|byte| byte.map(|byte| char::from(byte).escape_default().to_string()))
            .collect();
        Some(format!("\"{}\"{}", text?, width.strip_prefix('a').unwrap_or(width)))
    }
}

fn basic(letter: &str) -> Option<&'static str> {
    const NAMES: [(&str, &str); 23] = [
        ("v", "void"),
        ("g", "byte"),
        ("h", "ubyte"),
        ("s", "short"),
        ("t", "ushort"),
        ("i", "int"),
        ("k", "uint"),
        ("l", "long"),
        ("m", "ulong"),
        ("f", "float"),
        ("d", "double"),
        ("e", "real"),
        ("o", "ifloat"),
        ("p", "idouble"),
        ("j", "ireal"),
        ("q", "cfloat"),
        ("r", "cdouble"),
        ("c", "creal"),
        ("b", "bool"),
        ("a", "char"),
        ("u", "wchar"),
        ("w", "dchar"),
        ("n", "typeof(null)"),
    ];
    NAMES.iter().find(|(written, _)| *written == letter).map(|(_, name)| *name)
}
