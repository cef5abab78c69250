//! Root's `ramson` looks at processes of another user that are there to stop it, to fool it, or to make it take all memory.

use ramson_tests::keeping::MIB;
use ramson_tests::servers::*;
use ramson_tests::strangers::{cost_within, stranger};

/// Of a command that looks at one process.
const MOST_SECONDS: f64 = 1.0;
const MOST_BYTES: f64 = 200.0 * MIB;

/// That looking at a stranger's process costs no more than looking at any.
#[track_caller]
fn assert_cheap(how: &str) {
    let scratch = Scratch::new();
    let stranger = stranger(&scratch, how, &[]);
    for subcommand in ["doctor", "trim"] {
        let mut command = ramson(&scratch);
        let cost = cost_within(command.args([subcommand, &stranger.pid().to_string()]), 8);
        let is_answer = matches!(cost.status, Some(0 | 1));
        assert!(is_answer, "{how}: {subcommand}: {cost:?}");
        assert!(cost.seconds < MOST_SECONDS, "{how}: {subcommand}: {cost:?}");
        assert!(cost.peak_bytes < MOST_BYTES, "{how}: {subcommand}: {cost:?}");
    }
}

#[test]
fn a_mapped_file_of_5_gib_without_a_byte_in_it_is_not_read() {
    assert_cheap("sparse");
}

#[test]
fn a_fifo_in_the_place_of_a_mapped_file_is_not_waited_for() {
    assert_cheap("fifo");
}

#[test]
fn a_link_to_a_device_in_the_place_of_a_mapped_file_is_not_followed() {
    assert_cheap("zero");
}

#[test]
fn arguments_and_variables_without_an_end_are_not_read_to_it() {
    assert_cheap("endless");
}
