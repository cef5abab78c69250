//! The flags that say which part of a profile a command looks at: pprof's filters and
//! granularities.

use clap::Args;
use ramson_analysis::{Selection, question};
use ramson_profile::{Filters, Granularity, OwnFrames, Pattern, TagFilter};

/// A filter's expression matches a function's name, its file or the path of its binary.
#[derive(Args, Clone)]
#[command(next_help_heading = "Filters (RE matches names of functions, files and binaries)")]
pub struct FilterFlags {
    /// Keep only stacks with a matching frame
    #[arg(long, value_name = "RE", value_parser = Pattern::new)]
    pub focus: Option<Pattern>,
    /// Drop stacks with a matching frame
    #[arg(long, value_name = "RE", value_parser = Pattern::new)]
    pub ignore: Option<Pattern>,
    /// Remove matching frames from all stacks; their allocations are attributed to their callers
    #[arg(long, value_name = "RE", value_parser = Pattern::new)]
    pub hide: Option<Pattern>,
    /// Remove all frames that do not match
    #[arg(long, value_name = "RE", value_parser = Pattern::new)]
    pub show: Option<Pattern>,
    /// Remove the callers of the outermost matching frame, and stacks without a match
    #[arg(long, value_name = "RE", value_parser = Pattern::new)]
    pub show_from: Option<Pattern>,
    /// Keep only samples with a matching label: thread=RE, or bytes=RANGE of block sizes, such as
    /// 1kb:64kb or 4mb:
    #[arg(long, value_name = "[KEY=]RE|RANGE", value_parser = TagFilter::new, alias = "tag-focus")]
    pub tagfocus: Option<TagFilter>,
    /// Drop samples with a matching label
    #[arg(long, value_name = "[KEY=]RE|RANGE", value_parser = TagFilter::new, alias = "tag-ignore")]
    pub tagignore: Option<TagFilter>,
    /// Unit of a row: functions (by name; default of diff, as builds may be in different
    /// directories), filefunctions (by name and file; default elsewhere), files, lines, addresses
    /// or mappings
    #[arg(long, value_name = "WHAT", value_parser = question::granularity)]
    pub granularity: Option<Granularity>,
}

impl FilterFlags {
    /// Whether any is.
    pub fn are_set(&self) -> bool {
        let patterns = [&self.focus, &self.ignore, &self.hide, &self.show, &self.show_from];
        let tags = [&self.tagfocus, &self.tagignore];
        patterns.iter().any(|pattern| pattern.is_some())
            || tags.iter().any(|tag| tag.is_some())
            || self.granularity.is_some()
    }

    /// The selection that these flags ask for.
    pub fn selection(&self) -> Selection {
        let filters = Filters {
            ignore: self.ignore.clone(),
            focus: self.focus.clone(),
            hide: self.hide.clone(),
            show: self.show.clone(),
            show_from: self.show_from.clone(),
            tag_focus: self.tagfocus.clone(),
            tag_ignore: self.tagignore.clone(),
        };
        Selection { filters, own_frames: None, granularity: self.granularity }
    }
}

/// Which frames are the program's own. docs/reference/report-and-top.md has the rules.
#[derive(Args, Clone)]
pub struct FrameFlags {
    /// Also show the frames of libraries and of wrappers around malloc. Otherwise what the C, C++ and Rust libraries and wrappers such as
    /// xmalloc, g_malloc and PyMem_Malloc allocate is attributed to their callers
    #[arg(long)]
    pub all_frames: bool,
    /// Functions, source files or binaries to treat as a library: their allocations are attributed to their callers (repeatable)
    #[arg(long, value_name = "RE", value_parser = Pattern::new, conflicts_with = "all_frames")]
    pub library: Vec<Pattern>,
    /// Functions that wrap malloc: their allocations are attributed to their callers (repeatable)
    #[arg(long, value_name = "RE", value_parser = Pattern::new, conflicts_with = "all_frames")]
    pub wrapper: Vec<Pattern>,
}

impl FrameFlags {
    /// The rules; `None`: all frames are shown.
    pub fn own_frames(&self) -> Option<OwnFrames> {
        let own = || OwnFrames::new(self.library.clone(), self.wrapper.clone());
        (!self.all_frames).then(own)
    }

    /// The selection that these flags and the filters ask for.
    pub fn selection(&self, filters: &FilterFlags) -> Selection {
        Selection { own_frames: self.own_frames(), ..filters.selection() }
    }
}
