use super::*;

const SETTINGS: Settings = Settings { configured_bytes: 4096, max_overhead_ppm: 10_000 };
const WINDOW: f64 = WINDOW_NS as f64;
/// Windows in a second.
const SECOND: usize = 50;

/// A governed process, window by window.
struct Process {
    settings: Settings,
    recent: Recent,
    present: u64,
}

/// Work of a process in a window.
#[derive(Clone, Copy)]
struct Load {
    /// Bytes of each allocation.
    size: f64,
    /// Bytes allocated per nanosecond of the program's own CPU time.
    rate: f64,
    /// CPUs that the process has.
    cpus: f64,
    /// Cost of a sample.
    sample_ns: f64,
}

const STORM: Load = Load { size: 100.0, rate: 5.0, cpus: 1.0, sample_ns: 300.0 };
const REST: Load = Load { rate: 0.001, ..STORM };

impl Process {
    fn new(settings: Settings) -> Self {
        Self { settings, recent: Recent::default(), present: settings.configured_bytes }
    }

    /// The window's share of CPU time in samples.
    fn window(&mut self, load: Load) -> f64 {
        let probability = 1.0 - (-load.size / self.present as f64).exp();
        let samples_per_ns = load.rate / load.size * probability;
        // A CPU that is busy all the time is shared between the program and its samples.
        let cpu_ns = load.cpus * WINDOW;
        let program_ns = cpu_ns / (1.0 + samples_per_ns * load.sample_ns);
        let samples = program_ns * samples_per_ns;
        let slow_ns = samples * load.sample_ns;
        self.end(samples, slow_ns, cpu_ns, WINDOW);
        slow_ns / cpu_ns
    }

    fn end(&mut self, samples: f64, slow_ns: f64, cpu_ns: f64, wall_ns: f64) {
        let drawn_bytes = samples * self.present as f64;
        self.end_drawn(Window { samples, drawn_bytes, slow_ns, cpu_ns, wall_ns });
    }

    fn end_drawn(&mut self, window: Window) {
        remember(&mut self.recent, &window, self.settings);
        self.present = next_interval(&self.recent, self.present, self.settings);
    }

    fn windows(&mut self, count: usize, load: Load) -> Vec<f64> {
        (0..count).map(|_| self.window(load)).collect()
    }
}

fn mean(shares: &[f64]) -> f64 {
    shares.iter().sum::<f64>() / shares.len() as f64
}

#[test]
fn storm_is_held_at_bound() {
    for size in [16.0, 1024.0, 65_536.0, 1_048_576.0] {
        let load = Load { size, rate: 0.05 * size, ..STORM };
        let mut process = Process::new(SETTINGS);
        let first = process.windows(SECOND, load);
        assert!(first[0] > 0.05, "{size}: no storm");
        let later = process.windows(4 * SECOND, load);
        assert!((0.007..0.0105).contains(&mean(&later)), "{size}: {}", mean(&later));
        assert!(later.iter().all(|&share| share <= 0.0105), "{size}: {later:?}");
    }
}

#[test]
fn interval_recovers_within_a_second() {
    for rate in [0.5, 5.0, 50.0] {
        let mut process = Process::new(SETTINGS);
        process.windows(3 * SECOND, Load { rate, ..STORM });
        assert!(process.present > 2 * SETTINGS.configured_bytes);
        process.windows(SECOND, REST);
        assert_eq!(process.present, SETTINGS.configured_bytes, "{rate}");
    }
}

#[test]
fn idle_second_is_one_window() {
    let mut process = Process::new(SETTINGS);
    process.windows(SECOND, STORM);
    process.end(1.0, 5e3, 1e5, 1e9);
    assert_eq!(process.present, SETTINGS.configured_bytes);
}

/// Each thread uses up what it drew before it draws with the present interval: for three seconds here, as 200 kB/s and 512 KiB do.
#[test]
fn slow_threads_do_not_raise_the_interval_again() {
    const THREADS: usize = 3000;
    const LAG: usize = 3 * SECOND;
    let mut process = Process::new(Settings { configured_bytes: 512 << 10, ..SETTINGS });
    let configured = process.present as f64;
    let mut drawn = vec![process.present; LAG];
    for window in 0..10 * SECOND {
        let with = core::mem::replace(&mut drawn[window % LAG], process.present) as f64;
        let bytes = THREADS as f64 * 200e3 / SECOND as f64;
        let samples = bytes / with;
        process.end_drawn(Window {
            samples,
            drawn_bytes: bytes,
            slow_ns: samples * 30e3,
            cpu_ns: WINDOW * 0.4,
            wall_ns: WINDOW,
        });
        // 1,144 samples a second at the configured interval: 300 are enough, so no more than 4 times is wanted.
        assert!(process.present as f64 <= 4.0 * configured, "{window}: {}", process.present);
    }
}

#[test]
fn short_burst_changes_nothing() {
    let mut process = Process::new(SETTINGS);
    for _ in 0..5 {
        process.windows(SECOND - 2, REST);
        // 40 ms at 10%.
        let burst = process.windows(2, Load { rate: 1.5, ..STORM });
        assert!(mean(&burst) > 0.09);
        assert_eq!(process.present, SETTINGS.configured_bytes);
    }
}

#[test]
fn a_cold_start_changes_nothing() {
    // 8 threads on 2 CPUs that grow a heap: samples take 4% until what they need is in the caches.
    let settings = Settings { configured_bytes: 512 << 10, ..SETTINGS };
    let mut process = Process::new(settings);
    let warm = Load { size: 2000.0, rate: 1.0, cpus: 2.0, sample_ns: 3e3 };
    let cold = process.windows(4, Load { sample_ns: 2e4, ..warm });
    assert!(mean(&cold) > 0.035, "{cold:?}");
    assert_eq!(process.present, settings.configured_bytes);
    process.windows(SECOND, warm);
    assert_eq!(process.present, settings.configured_bytes);
}

#[test]
fn few_samples_change_nothing() {
    for sample_ns in [1e4, 1e6] {
        let mut process = Process::new(SETTINGS);
        for samples in [299.0, 100.0] {
            for _ in 0..3 * SECOND {
                let samples = samples / SECOND as f64;
                let slow_ns = samples * sample_ns;
                process.end(samples, slow_ns, slow_ns * 1.1, WINDOW);
            }
            assert_eq!(process.present, SETTINGS.configured_bytes);
        }
    }
}

#[test]
fn sample_rate_stays_above_minimum() {
    // A sample takes 100 µs: at the bound there would be 85 a second.
    let mut process = Process::new(SETTINGS);
    let load = Load { sample_ns: 1e5, ..STORM };
    process.windows(2 * SECOND, load);
    let shares = process.windows(SECOND, load);
    let samples = mean(&shares) * 1e9 / load.sample_ns;
    assert!((300.0 / SLACK..300.0 * SLACK).contains(&samples), "{samples}");
}

#[test]
fn more_cpus_allow_more_samples() {
    let settings = Settings { configured_bytes: 512 << 10, ..SETTINGS };
    let raised = [1.0, 8.0].map(|cpus| {
        let mut process = Process::new(settings);
        // The same samples in more CPU time.
        process.windows(2 * SECOND, Load { cpus, rate: 20.0 / cpus, sample_ns: 3000.0, ..STORM });
        process.present
    });
    assert!(raised[0] > 4 * settings.configured_bytes, "{raised:?}");
    assert!(raised[1] < 2 * settings.configured_bytes, "{raised:?}");
}

#[test]
fn within_the_bound_nothing_changes() {
    for share in [0.0, 0.001, 0.0099] {
        let mut process = Process::new(SETTINGS);
        for _ in 0..SECOND {
            process.end(1e3, share * WINDOW, WINDOW, WINDOW);
        }
        assert_eq!(process.present, SETTINGS.configured_bytes);
    }
}

#[test]
fn cpu_time_is_read_when_busy() {
    let is_busy = |samples: f64, interval: f64| {
        let drawn_bytes = samples * interval;
        is_busy(&Window { samples, drawn_bytes, slow_ns: 0.0, cpu_ns: 0.0, wall_ns: 1e8 }, SETTINGS)
    };
    assert!(!is_busy(29.0, 4096.0));
    assert!(is_busy(30.0, 4096.0));
    // As many as there would be at the configured interval.
    assert!(is_busy(15.0, 8192.0));
    let mut process = Process::new(SETTINGS);
    process.windows(SECOND, STORM);
    assert!(!is_calm(&process.recent));
    process.windows(SECOND, REST);
    assert!(is_calm(&process.recent));
}

#[test]
fn interval_rises_to_its_maximum() {
    let all = |process: &mut Process| process.end(1e6, WINDOW, WINDOW, WINDOW);
    let exact = Settings { configured_bytes: 1, ..SETTINGS };
    let mut process = Process::new(exact);
    process.end(1e6, 0.02 * SPAN_NS, SPAN_NS, SPAN_NS);
    assert_eq!(process.present, 3);
    (0..SECOND).for_each(|_| all(&mut process));
    assert_eq!(process.present, MOST_BYTES);
    let large = Settings { configured_bytes: 1 << 45, ..SETTINGS };
    let mut process = Process::new(large);
    (0..SECOND).for_each(|_| all(&mut process));
    assert_eq!(process.present, 1 << 45);
}
