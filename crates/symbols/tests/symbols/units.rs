//! Many addresses are looked up by several threads, few by one.

use crate::support::*;
use ramson_symbols::{Options, Symbolizer};

const UNITS: usize = 24;

/// Every address of a program of many units, and the program.
fn program_of_many_units(flags: &str) -> (Folder, Vec<u64>) {
    let folder = Folder::new();
    let calls: String = (0..UNITS).map(|unit| format!("extern int outer_{unit}(int); ")).collect();
    let sum: String = (0..UNITS).map(|unit| format!(" + outer_{unit}(argc)")).collect();
    folder
        .write("main.c", &format!("{calls} int main(int argc, char **argv) {{ return 0 {sum}; }}"));
    for unit in 0..UNITS {
        let source = format!(
            "static volatile int sink;
            static inline __attribute__((always_inline)) int inner_{unit}(int x) {{ sink = x; return sink * {unit}; }}
            int outer_{unit}(int x) {{ sink = x + 1; return inner_{unit}(x) + sink; }}"
        );
        folder.write(&format!("u{unit}.c"), &source);
    }
    let sources = (0..UNITS).map(|unit| format!(" u{unit}.c")).collect::<String>();
    folder.run(&format!("gcc -O1 -g {flags} -c main.c{sources}"));
    folder.run(&format!("gcc -Wl,--build-id -o a main.o{}", sources.replace(".c", ".o")));
    let symbols = nm(&folder, "a").into_iter();
    let ours = symbols.filter(|symbol| symbol.name.starts_with("outer_") || symbol.name == "main");
    let addresses = ours.flat_map(|symbol| symbol.address..symbol.address + symbol.size).collect();
    (folder, addresses)
}

#[test]
fn many_addresses_agree_with_few() {
    for flags in ["", "-gz", "-gsplit-dwarf"] {
        let (folder, addresses) = program_of_many_units(flags);
        let binary = binary(&folder.path("a"), &build_id(&folder, "a"));
        let at_once =
            Symbolizer::new(Options::default()).symbolize(&binary, &file_addresses(&addresses));
        let mut symbolizer = Symbolizer::new(Options::default());
        let few = addresses
            .chunks(20)
            .flat_map(|few| symbolizer.symbolize(&binary, &file_addresses(few)).frames);
        assert_eq!((&at_once.frames, at_once.defect), (&few.collect::<Vec<_>>(), None), "{flags}");
        let inlined = at_once.frames.iter().filter(|frames| frames.len() == 2);
        assert!(inlined.count() >= 2 * UNITS, "{flags}");
        let names = at_once.frames.iter().flatten().map(|frame| frame.function.to_string());
        let names: std::collections::BTreeSet<String> = names.collect();
        assert_eq!(names.len(), 2 * UNITS + 1, "{flags}: {names:?}");
        assert!(at_once.frames.iter().flatten().all(|frame| frame.line > 0), "{flags}");
    }
}
