//! Objects that nothing names once their process has ended: one line says which and why, however many they are.

use ramson_source::RootFate;
use ramson_symbols::{LostRoot, SymbolDefect};

/// Puts all objects of a process that has ended whose files were not found into one defect. A single one that was in our own root
/// directory keeps its own, which says more.
pub fn in_one_line(defects: Vec<SymbolDefect>, fate: RootFate) -> Vec<SymbolDefect> {
    let is_elsewhere = fate != RootFate::Own;
    let root = match fate {
        RootFate::Own | RootFate::Present(_) => LostRoot::Present,
        RootFate::Gone(path) => LostRoot::Gone(path),
        RootFate::Replaced(path) => LostRoot::Replaced(path),
    };
    let (lost, mut others): (Vec<_>, Vec<_>) =
        defects.into_iter().partition(|defect| path_of_lost(defect).is_some());
    // A file at the same path here says nothing of an object in another root directory.
    others
        .retain(|defect| !(is_elsewhere && matches!(defect, SymbolDefect::BuildIdDiffers { .. })));
    if lost.len() < 2 && root == LostRoot::Present {
        return lost.into_iter().chain(others).collect();
    }
    let paths: Vec<String> = lost.iter().filter_map(path_of_lost).collect();
    let line = (!paths.is_empty()).then_some(SymbolDefect::ObjectsLost { paths, root });
    line.into_iter().chain(others).collect()
}

fn path_of_lost(defect: &SymbolDefect) -> Option<String> {
    match defect {
        SymbolDefect::BinaryMissing { path, .. } => Some(path.clone()),
        SymbolDefect::BuildIdDiffers { path, used: None, .. } => Some(path.display().to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(path: &str) -> SymbolDefect {
        SymbolDefect::BinaryMissing { path: path.into(), build_id: "0f".into() }
    }

    fn replaced(path: &str, used: Option<&str>) -> SymbolDefect {
        SymbolDefect::BuildIdDiffers {
            path: path.into(),
            wanted: "0a".into(),
            found: "0b".into(),
            used: used.map(Into::into),
        }
    }

    fn lines(defects: &[SymbolDefect], fate: RootFate) -> Vec<String> {
        in_one_line(defects.to_vec(), fate).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn several_lost_objects_share_one_line() {
        let said = lines(&[replaced("/usr/bin/a", None)], RootFate::Own);
        assert!(said[0].starts_with("/usr/bin/a: replaced since"), "{said:?}");
        let all = ["a", "b", "c", "d", "e"].map(|name| missing(&format!("/lib/{name}.so")));
        let said = lines(&all, RootFate::Own);
        assert_eq!(said.len(), 1);
        assert!(
            said[0].starts_with("a.so, b.so, c.so and 2 more: without names, because they"),
            "{said:?}"
        );
    }

    #[test]
    fn fate_of_foreign_root_is_told() {
        let defects =
            [missing("/bin/a"), replaced("/lib/b", None), replaced("/lib/c", Some("/x/c"))];
        let gone = lines(&defects, RootFate::Gone(Some("/srv/one".into())));
        assert_eq!(gone.len(), 1);
        assert!(
            gone[0].starts_with("a, b: the program's root directory /srv/one is gone"),
            "{gone:?}"
        );
        let replaced = lines(&defects[..1], RootFate::Replaced("/srv/one".into()));
        assert!(
            replaced[0].contains("/srv/one, the program's root directory, has been replaced"),
            "{replaced:?}"
        );
        assert_eq!(lines(&defects[2..], RootFate::Gone(None)), [""; 0]);
    }
}
