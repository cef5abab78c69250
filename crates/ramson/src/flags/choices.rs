//! Choices that several commands offer.

use clap::ValueEnum;
use ramson_analysis::named::Kinds;
use ramson_format::Kind;
use ramson_profile::view::Sort;

/// Which kind of memory a profile is of.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum KindChoice {
    #[default]
    Heap,
    Mmap,
    All,
}

impl KindChoice {
    /// `None`: the flag was not used.
    pub fn kinds(choice: Option<Self>) -> Kinds {
        match choice {
            None => Kinds::Usual,
            Some(Self::Heap) => Kinds::Only(Kind::Heap),
            Some(Self::Mmap) => Kinds::Only(Kind::Mmap),
            Some(Self::All) => Kinds::All,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum SortBy {
    Flat,
    Cum,
    Name,
}

impl From<SortBy> for Sort {
    fn from(sort: SortBy) -> Self {
        match sort {
            SortBy::Flat => Self::Flat,
            SortBy::Cum => Self::Cum,
            SortBy::Name => Self::Name,
        }
    }
}
