//! The flags of `ramson diff`, and the gate for CI.

use super::filters::{FilterFlags, FrameFlags};
use super::source::NameFlags;
use super::values::{one_of, parse_size};
use clap::Args;
use ramson_analysis::comparison::is_noise;
use ramson_analysis::question::{self, SORTS};
use ramson_profile::format::{format_half_width, format_value};
use ramson_profile::view::Sort;
use ramson_profile::{DiffTable, SampleType};

#[derive(Args)]
#[command(after_help = "\
Columns: Δ is the change of the function's own allocations, new − old; ± is its 95% interval (that of Δ total if Δ is 0). A row marked ~ is not significant. Functions are matched by name, so the profiles may come from different processes, machines or builds. Two snapshots of one process are compared more precisely: samples that are live in both cancel out.

Exit status: 3 if --fail-above tripped.

Examples:
  ramson mark 4711 -o before.ramson; sleep 600; ramson diff before.ramson 4711
  ramson diff unit:redis.service@-1h unit:redis.service
  ramson diff main.ramson branch.ramson --fail-above 5%
  ramson diff old.ramson new.ramson --focus '^db/' --fail-above 10MiB")]
pub struct DiffFlags {
    /// The earlier profile: any SRC of "ramson report"; if it names several, their sum
    pub old: String,
    /// The later profile, in the same way
    pub new: String,
    #[command(flatten)]
    pub names: NameFlags,
    /// Quantity to count: live (bytes), live-objects, allocated (bytes since the start) or allocations.
    /// Default: live, or the pprof file's own. pprof's names, such as inuse_space, work too
    #[arg(long, value_name = "TYPE", value_parser = question::sample_type)]
    pub count: Option<SampleType>,
    /// Exit with 3 if the total grew significantly, and by more than a percentage of OLD or a size
    /// (5%, 10MiB)
    #[arg(long, value_name = "GROWTH", value_parser = parse_limit)]
    pub fail_above: Option<Limit>,
    #[command(flatten)]
    pub filters: FilterFlags,
    #[command(flatten)]
    pub frames: FrameFlags,
    /// Rows of the table to show; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
    /// Order of the rows
    #[arg(long, default_value = "own", value_parser = one_of(SORTS))]
    pub sort: Sort,
    /// Leave out rows that shrank
    #[arg(long)]
    pub drop_negative: bool,
    /// One JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// How much growth is allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// As it was given.
    pub text: String,
    amount: Amount,
}

#[derive(Clone, Debug, PartialEq)]
enum Amount {
    /// A share of the earlier total.
    Share(f64),
    /// In the unit of the sample type.
    Value(u64),
}

fn parse_limit(text: &str) -> Result<Limit, String> {
    let amount = match text.strip_suffix('%') {
        Some(percent) => {
            let share = percent.trim().parse::<f64>().ok().filter(|share| *share >= 0.0);
            share.filter(|share| share.is_finite()).map(|percent| Amount::Share(percent / 100.0))
        }
        None => parse_size(text).map(Amount::Value),
    };
    let wrong = || "neither a percentage nor a size, such as 5% or 10MiB".to_owned();
    Ok(Limit { text: text.to_owned(), amount: amount.ok_or_else(wrong)? })
}

impl Limit {
    /// Whether it is a size.
    pub fn is_of_bytes(&self) -> bool {
        self.text.ends_with(['B', 'b'])
    }

    /// The message if the total grew by more, and by more than chance.
    pub fn finding(&self, table: &DiffTable) -> Option<String> {
        let allowed = match self.amount {
            Amount::Share(share) => share * table.old_total.value,
            Amount::Value(value) => value as f64,
        };
        let is_exceeded = table.change.value > allowed && !is_noise(table.change);
        let unit = table.sample_type.unit();
        let say = || {
            format!(
                "{} grew by {} ({}), from {} to {}: more than {}",
                table.sample_type.word(),
                format_value(table.change.value, unit),
                format_half_width(table.change, unit),
                format_value(table.old_total.value, unit),
                format_value(table.new_total.value, unit),
                self.text,
            )
        };
        is_exceeded.then(say)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_profile::{Estimate, SampleType};

    fn table(old: f64, change: f64, half_width: f64) -> DiffTable {
        let variance = (half_width / 1.959964).powi(2);
        DiffTable {
            sample_type: SampleType::InuseSpace,
            old_total: Estimate::exact(old),
            new_total: Estimate::exact(old + change),
            change: Estimate::new(change, variance),
            is_significant: false,
            rows: vec![],
        }
    }

    #[test]
    fn significant_growth_over_limit_trips() {
        let trips =
            |limit: &str, table: &DiffTable| parse_limit(limit).unwrap().finding(table).is_some();
        assert!(trips("5%", &table(1000.0, 51.0, 10.0)));
        assert!(!trips("5%", &table(1000.0, 50.0, 10.0)));
        assert!(!trips("5%", &table(1000.0, 500.0, 501.0)));
        assert!(!trips("5%", &table(1000.0, -500.0, 1.0)));
        assert!(trips("50B", &table(1000.0, 51.0, 10.0)));
        assert!(!trips("1K", &table(1000.0, 51.0, 10.0)));
        assert!(trips("5%", &table(0.0, 1.0, 0.0)));
        assert!(!trips("0%", &table(1000.0, 0.0, 0.0)));
        assert!(trips("5%", &table(1000.0, 51.0, f64::NAN)));
    }

    #[test]
    fn growth_limit_is_percentage_or_size() {
        for wrong in ["", "%", "5 percent", "-5%", "nan%", "inf%", "1.5M", "x"] {
            assert!(parse_limit(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_limit("2.5%").unwrap().amount, Amount::Share(0.025));
        assert_eq!(parse_limit("10MiB").unwrap().amount, Amount::Value(10 << 20));
    }
}
