//! The JSON documents of the command line.

use ramson_source::Failure;

/// A document that `--json` prints, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// The document of `ramson list`.
    List,
    /// The document of `ramson report`.
    Report,
    /// The document of `ramson leaks`.
    Leaks,
    /// The document of `ramson explain`.
    Explain,
    /// The document of `ramson timeline`.
    Timeline,
    /// The document of `ramson diff`; its earlier source is the parameter `old`, a moment of the same process.
    Diff,
}

impl Document {
    const ALL: [(&'static str, Self); 6] = [
        ("list", Self::List),
        ("report", Self::Report),
        ("leaks", Self::Leaks),
        ("explain", Self::Explain),
        ("timeline", Self::Timeline),
        ("diff", Self::Diff),
    ];

    /// The one that the command of this name prints.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(is, _)| *is == name).map(|(_, document)| *document)
    }

    /// Whether it is of one source.
    pub fn is_of_source(self) -> bool {
        self != Self::List
    }

    /// The command that prints it.
    pub fn command(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// Makes the documents. The commands themselves do it, so that their documents and the server's are the same.
pub trait Documents: Send + Sync {
    /// The bytes of a document. `source` is a SRC, `None` for a document of no source; `words` are flags of the command
    /// and their values, as a client sent them.
    fn make(
        &self,
        document: Document,
        source: Option<&str>,
        words: &[(String, String)],
    ) -> Result<Vec<u8>, Failure>;
}
