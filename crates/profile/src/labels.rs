//! Labels of samples: further facts about the allocations of one sample. pprof calls them tags; each is a key with a text or a number.

use std::fmt;
use std::sync::Arc;

/// Key of the block size, a number with the unit `bytes`, as Go writes it.
pub const BLOCK_SIZE: &str = "bytes";
/// Key of the allocating thread, a text.
pub const THREAD: &str = "thread";

/// Key of the language of the innermost frame that a run time compiled or interprets, a text. Without it: native frames only.
pub const LANGUAGE: &str = "language";

/// Key of the kind of memory, a text: `heap` or `mmap`. Without it: heap.
pub const KIND: &str = "kind";

/// Key of an allocator inside the executable or a library, a text. Without it: the program's malloc.
pub const ALLOCATOR: &str = "allocator";

/// One label. A key may occur more than once in a sample.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    /// The key, which says what the value is of.
    pub key: Arc<str>,
    /// The value.
    pub value: LabelValue,
}

/// A text or a number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LabelValue {
    /// As written.
    Text(Arc<str>),
    /// A measure.
    Number {
        /// In `unit`.
        value: i64,
        /// As the producer wrote it; may be empty.
        unit: Arc<str>,
    },
}

impl Label {
    /// The label of a block of this size.
    pub fn block_size(size_bytes: u64) -> Label {
        let value = i64::try_from(size_bytes).unwrap_or(i64::MAX);
        Label { key: BLOCK_SIZE.into(), value: LabelValue::Number { value, unit: "bytes".into() } }
    }

    /// The label of a kind of memory.
    pub fn kind(name: &str) -> Label {
        Label { key: KIND.into(), value: LabelValue::Text(name.into()) }
    }

    /// The label of blocks of an allocator inside an object.
    pub fn allocator(name: &str) -> Label {
        Label { key: ALLOCATOR.into(), value: LabelValue::Text(name.into()) }
    }

    /// The label of a thread.
    pub fn thread(name: Arc<str>) -> Label {
        Label { key: THREAD.into(), value: LabelValue::Text(name) }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            LabelValue::Text(text) => write!(f, "{}={text}", self.key),
            LabelValue::Number { value, unit } => write!(f, "{}={value}{unit}", self.key),
        }
    }
}
