//! Users of this machine.

use std::fs::read_to_string;

/// Who has no rights.
const NOBODY_S_GROUP: u32 = 65534;

/// The first group of a user. Of one that `/etc/passwd` does not know, the group that owns nothing: a helper opens nothing, so it needs none.
pub fn group_of(user: u32) -> u32 {
    let known = read_to_string("/etc/passwd").unwrap_or_default();
    group_in(&known, user).unwrap_or(NOBODY_S_GROUP)
}

fn group_in(known: &str, user: u32) -> Option<u32> {
    known.lines().find_map(|line| {
        let mut numbers = line.splitn(5, ':').skip(2).map(str::parse::<u32>);
        let (is, group) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        (is == user).then_some(group)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_group_of_the_table() {
        let known = "root:x:0:0:root:/root:/bin/sh\nbroken\na:x:1000:100::/home/a:/bin/sh\n";
        assert_eq!(group_in(known, 1000), Some(100));
        assert_eq!(group_in(known, 0), Some(0));
        assert_eq!(group_in(known, 7), None);
    }
}
