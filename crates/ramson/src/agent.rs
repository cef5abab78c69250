//! `ramson agent`: sends what changes in the processes of this host to a database, once a minute.

use crate::agent_rules::Rules;
use crate::flags::AgentFlags;
use crate::output::{print_raw, remark};
use ramson_analysis::hash::hash;
use ramson_fleet::{Agent, Config, JsonLines, Queue, SCHEMA_VERSION, check, send};
use ramson_process::clock::unix_ns;
use ramson_source::Failure;
use ramson_source::clickhouse::ClickHouse;
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use std::{mem, thread};

const MOST_SENDING: Duration = Duration::from_secs(10);
/// New processes are searched for so long before each round.
const SEARCH_AHEAD: Duration = Duration::from_secs(2);

pub fn agent(flags: &AgentFlags) -> Result<(), Failure> {
    let config = Config::read(&flags.config).map_err(Failure::usage)?;
    let server = ClickHouse::new(config.clickhouse.clone()).map_err(Failure::usage)?;
    if flags.check {
        check(&server).map_err(Failure::failed)?;
        let url = &config.clickhouse.url;
        let line =
            format!("{}: ok. {url}: tables of version {SCHEMA_VERSION}\n", flags.config.display());
        return print_raw(line.as_bytes());
    }
    if flags.dry_run {
        let mut rows = JsonLines::default();
        let mut agent = Agent::begin(&config, None);
        agent.round(&mut rows)?;
        agent.unreadable().iter().for_each(remark);
        return print_raw(rows.0.as_bytes());
    }
    let mut session = Session::begin(config, server)?;
    if flags.once {
        session.round()?;
        return session.send(Duration::MAX).map_err(Failure::failed);
    }
    let orders = orders()?;
    loop {
        let began = Instant::now();
        session.round_or_wait();
        session.send_or_wait();
        let order = session.wait(&orders, began, SEARCH_AHEAD).or_else(|| {
            session.agent.search();
            session.wait(&orders, began, Duration::ZERO)
        });
        match order {
            Some(SIGHUP) => session.reload(&flags.config),
            Some(_) => {
                // What has come since the last look is sent at the next start.
                session.round_or_wait();
                return Ok(());
            }
            None => {}
        }
    }
}

/// Without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// The signals that tell it something.
fn orders() -> Result<Receiver<i32>, Failure> {
    let failed = |error| Failure::failed(format!("signals: {error}. Try again"));
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(failed)?;
    let (sender, orders) = channel();
    thread::spawn(move || signals.forever().try_for_each(|signal| sender.send(signal)));
    Ok(orders)
}

struct Session {
    config: Config,
    server: ClickHouse,
    queue: Queue,
    agent: Agent,
    rules: Rules,
    /// Why nothing can be kept, and why nothing can be sent, as said last.
    obstacle: String,
    refusal: String,
}

impl Session {
    fn begin(config: Config, server: ClickHouse) -> Result<Self, Failure> {
        let id = format!("{:016x}", hash([config.host.as_bytes(), &unix_ns().to_be_bytes()]));
        let queue = Queue::open(&config.state, config.queue_bytes, &id).map_err(|error| {
            let place = config.state.display();
            Failure::failed(match error.kind() {
                ErrorKind::ResourceBusy => format!("{place}: another agent runs. Stop it first"),
                _ => format!("{place}: {}. Check state in the configuration", plain(&error)),
            })
        })?;
        let agent = Agent::begin(&config, queue.last_kept_ns());
        let [obstacle, refusal] = [const { String::new() }; 2];
        Ok(Self { config, server, queue, agent, rules: Rules::default(), obstacle, refusal })
    }

    /// Looks, and puts what has changed into the queue.
    fn round(&mut self) -> Result<(), Failure> {
        let place = self.config.state.display();
        let dropped = self.queue.dropped_rows;
        match mem::take(&mut self.queue.damaged_batches) {
            0 => {}
            count => remark(format_args!(
                "{place}: damaged batches were dropped: {count}. This host's numbers are wrong until tomorrow (UTC)"
            )),
        }
        self.rules.apply(&self.config.attach);
        self.agent.round(&mut self.queue).map_err(|error| {
            Failure::failed(format!("{place}: {}. Make room there", plain(&error)))
        })?;
        self.agent.unreadable().iter().for_each(remark);
        match self.queue.dropped_rows - dropped {
            0 => {}
            dropped => remark(format_args!(
                "{place}: full (queue_bytes): the oldest {dropped} rows were dropped. This host's numbers are wrong until tomorrow (UTC)"
            )),
        }
        Ok(())
    }

    /// Says when nothing can be kept any more, and when it can again. Until then, it waits in the profiles of the processes.
    fn round_or_wait(&mut self) {
        let obstacle = self.round().err().map(|failure| failure.to_string()).unwrap_or_default();
        if obstacle == self.obstacle {
            return;
        }
        match &*obstacle {
            "" => remark(format_args!("{}: rows are kept again", self.config.state.display())),
            reason => remark(format_args!("{reason}; rows wait in the processes' profiles")),
        }
        self.obstacle = obstacle;
    }

    fn send(&mut self, most: Duration) -> Result<(), String> {
        send(&mut self.queue, &self.server, most).map(drop)
    }

    /// Says when the server cannot be reached any more, and when it can again.
    fn send_or_wait(&mut self) {
        // The next look and orders do not wait for all of a long queue.
        let refusal = self.send(MOST_SENDING).err().unwrap_or_default();
        if refusal == self.refusal {
            return;
        }
        match &*refusal {
            "" => remark(format_args!("{}: it takes rows again", self.config.clickhouse.url)),
            reason => remark(format_args!(
                "{reason}. {} in {}",
                match self.queue.waiting() {
                    1 => "1 batch waits".to_owned(),
                    count => format!("{count} batches wait"),
                },
                self.config.state.display()
            )),
        }
        self.refusal = refusal;
    }

    /// Until so long before the next round is due or an order comes, which is returned.
    fn wait(&self, orders: &Receiver<i32>, began: Instant, ahead: Duration) -> Option<i32> {
        let every = Duration::from_secs(self.config.every_seconds);
        orders.recv_timeout(every.saturating_sub(began.elapsed() + ahead)).ok()
    }

    /// The folder and the name of the host stay until it is started again.
    fn reload(&mut self, path: &Path) {
        let config = Config::read(path);
        let read =
            config.and_then(|config| Ok((ClickHouse::new(config.clickhouse.clone())?, config)));
        match read {
            Ok((server, config)) => {
                remark(format_args!("{}: read again", path.display()));
                self.server = server;
                self.config = Config { state: self.config.state.clone(), ..config };
            }
            Err(finding) => remark(format_args!("{finding}. The configuration stays as it was")),
        }
    }
}
