use super::*;

#[test]
fn orders_are_whole_or_refused() {
    let orders = Orders {
        interval_bytes: 512 << 10,
        max_overhead_ppm: 10_000,
        is_off: true,
        until_monotonic_ns: 7,
        number: 3,
    };
    let words = orders.words();
    assert_eq!(Orders::of_words(&words), Some(orders));
    assert_eq!(Orders::of_words(&[0; ORDER_WORDS]), None);
    for index in 0..ORDER_WORDS {
        let mut torn = words;
        torn[index] ^= 1;
        assert_eq!(Orders::of_words(&torn), None, "{index}");
    }
    for interval_bytes in [0, MOST_INTERVAL_BYTES + 1] {
        let words = Orders { interval_bytes, ..orders }.words();
        assert_eq!(Orders::of_words(&words), None);
    }
    let words = Orders { max_overhead_ppm: 1_000_001, ..orders }.words();
    assert_eq!(Orders::of_words(&words), None);
}

#[test]
fn torn_request_is_refused() {
    let request = Request {
        action: Action::Attach,
        slots: 12,
        interval_bytes: 1,
        max_overhead_ppm: 0,
        file_bytes: FILE_BYTES_RANGE.0,
        tried_filters: Some(2),
        pid: 1,
        program_headers: 2,
        entropy: 3,
        number: 4,
        loader: Loader { count_at: 5, count: 6, lock: 7, try_lock: 8, unlock: 9 },
    };
    let mut directory = [0; DIRECTORY_WORDS];
    directory[0] = 0x2f;
    let words = request.words(&directory);
    assert_eq!(Request::of_words(&words, &directory), Some(request));
    assert_eq!(Request::of_words(&words, &[0; DIRECTORY_WORDS]), None);
    for index in 0..REQUEST_WORDS {
        let mut torn = words;
        torn[index] ^= 1 << 40;
        assert_eq!(Request::of_words(&torn, &directory), None, "{index}");
    }
}
