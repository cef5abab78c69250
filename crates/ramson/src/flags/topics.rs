//! `ramson help src` and `ramson help filters`: what several commands have in common.

use super::filters::FilterFlags;
use clap::{Args, Command};
use std::ffi::OsString;

const SRC: &str = "\
SRC: which process or profile

  4711                    a process ID; -p 4711 works, too
  redis-server            all processes of that name, unless there is such a file; also name:redis-server
  name:svc.py             an interpreter's processes that run this script
  tree:4711               a process and its descendants
  unit:redis.service      the processes of a systemd unit
  cgroup:/system.slice    the processes of a control group and of its children
  crash.ramson            a file: ramson's, pprof, jemalloc, gperftools, heaptrack, memleak, Seastar, collapsed
  http://host/debug/pprof/heap
                          a pprof endpoint
  clickhouse://host/ramson?service=NAME
                          a service of a fleet; &version= &host= &pid= choose
  -                       standard input

Dead processes go by the same names: their profiles are still there. Several SRCs, or several matching processes, are
summed. \"ramson list\" lists the profiles.

With a history (\"ramson history\"), a moment or a range may follow:

  4711@-1h                an hour ago
  4711@2026-11-20T17:00   at this local time
  4711@peak               at the peak of live memory
  4711@mark:deploy        when it was marked (\"ramson mark\")
  4711@-2h..-1h           what was allocated in this time, and was live at its end
";

/// The text that `ramson help TOPIC` prints; `None`: it is no topic.
pub fn topic(words: &[OsString]) -> Option<String> {
    let [_, help, topic] = words else { return None };
    match (help.to_str()?, topic.to_str()?) {
        ("help", "src" | "SRC") => Some(SRC.into()),
        ("help", "filters") => Some(filters()),
        _ => None,
    }
}

fn filters() -> String {
    let flags = Command::new("filters").disable_help_flag(true).max_term_width(100);
    let mut flags = FilterFlags::augment_args(flags).help_template("{all-args}").after_help("");
    format!(
        "{}\nThey apply in this order: --ignore, --focus, --hide, --show, --show-from.\n\nExamples:\n  \
         ramson report redis-server --focus '^db'\n  ramson leaks 4711 --show '^my::'\n  \
         ramson report 4711 --view sizes --tagfocus thread=bio_\n",
        flags.render_help()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_printed() {
        let topic = |line: &str| topic(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(topic("ramson help src").is_some_and(|text| text.contains("tree:4711")));
        let filters = topic("ramson help filters").unwrap();
        for flag in ["--focus", "--show-from", "--tagignore", "--granularity"] {
            assert!(filters.contains(flag), "{filters}");
        }
        assert_eq!(topic("ramson help report"), None);
    }
}
