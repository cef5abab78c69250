//! A stream of the moments of a process, as server-sent events.

use crate::moments::Moment;
use crate::reply::{self, Reply};
use crate::watch::{Look, Watch};
use bytes::Bytes;
use ramson_analysis::terms::Terms;
use ramson_profile::Estimate;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::spawn_local;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// At most one event in this time.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
/// A line that says nothing keeps proxies from closing the connection, and finds out who has left.
const HEARTBEAT: Duration = Duration::from_secs(15);
const KIND: &str = "text/event-stream";

/// The data of an event; null: not known.
#[derive(Serialize)]
struct Event<'a> {
    unix_ns: Option<u64>,
    rss: Option<u64>,
    live: Option<Estimate>,
    free: Option<Estimate>,
    terms: Option<Terms>,
    /// How the process ended; null while it runs.
    ended: Option<&'a str>,
}

/// Begins a stream. It ends after the event that says what became of the process.
pub fn stream(watch: &Arc<Watch>, pid: u32, permit: OwnedSemaphorePermit) -> Reply {
    let (sender, receiver) = mpsc::channel(1);
    let look = watch.look_at(pid);
    let watch = watch.clone();
    spawn_local(async move {
        let _permit = permit;
        // Who has left is not sent to any more.
        let _ = send(&watch, pid, look, &sender).await;
    });
    reply::stream(KIND, receiver)
}

/// The only event of a process that had ended before this server began.
pub fn of_ended(state: &str) -> Reply {
    reply::of(KIND, event(None, Some(state)))
}

async fn send(
    watch: &Watch,
    pid: u32,
    _look: Look,
    sender: &mpsc::Sender<Bytes>,
) -> Result<(), mpsc::error::SendError<Bytes>> {
    let mut ticks = interval(LEAST_PAUSE);
    // A client that was slow gets no burst afterwards.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_ns = 0;
    let mut last_sent = Instant::now();
    // Tells the client at once that it is let in.
    sender.send(Bytes::from_static(b": moments\n\n")).await?;
    loop {
        tokio::select! {
            () = sender.closed() => return Ok(()),
            _ = ticks.tick() => {}
        }
        let (moment, ended) = match watch.seen().of(pid) {
            Some(series) => (series.moments.last().copied(), series.ended.clone()),
            None => (None, None),
        };
        let is_new = moment.is_some_and(|moment| moment.unix_ns > last_ns);
        if is_new || ended.is_some() {
            last_ns = moment.map_or(last_ns, |moment| moment.unix_ns);
            sender.send(event(moment, ended.as_deref()).into()).await?;
            last_sent = Instant::now();
        } else if last_sent.elapsed() >= HEARTBEAT {
            sender.send(Bytes::from_static(b":\n\n")).await?;
            last_sent = Instant::now();
        }
        if ended.is_some() {
            return Ok(());
        }
    }
}

fn event(moment: Option<Moment>, ended: Option<&str>) -> String {
    let event = Event {
        unix_ns: moment.map(|moment| moment.unix_ns),
        rss: moment.and_then(|moment| moment.rss),
        live: moment.and_then(|moment| moment.live),
        free: moment.and_then(|moment| moment.free),
        terms: moment.and_then(|moment| moment.terms),
        ended,
    };
    let mut data = Vec::new();
    // Writing to memory does not fail.
    let _ = ramson_encode::json::write_line(&event, &mut data);
    format!("event: moment\ndata: {}\n\n", String::from_utf8_lossy(&data).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{pause, sleep, timeout};

    const PID: u32 = 7;

    fn moment(unix_ns: u64) -> Moment {
        Moment { unix_ns, rss: Some(1), live: Some(Estimate::exact(1.0)), free: None, terms: None }
    }

    /// The events that a client gets while `during` goes on; time passes when all wait.
    fn sent(during: impl AsyncFnOnce(&Watch)) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            pause();
            let watch = Arc::new(Watch::default());
            let (sender, mut receiver) = mpsc::channel(1);
            let sending = async {
                let _ = send(&watch, PID, watch.look_at(PID), &sender).await;
                drop(sender);
            };
            let receiving = async {
                let mut all = Vec::new();
                while let Some(bytes) = receiver.recv().await {
                    all.push(String::from_utf8(bytes.to_vec()).unwrap());
                }
                all
            };
            let ended = async {
                during(&watch).await;
                watch.seen().push(PID, 1, moment(u64::MAX));
                watch.seen().end(PID, "exited 0".into());
            };
            let all = timeout(Duration::from_secs(3600), async {
                tokio::join!(ended, async { tokio::join!(sending, receiving).1 }).1
            });
            all.await.expect("the stream ends with the process")
        })
    }

    #[test]
    fn events_come_once_a_second() {
        let all = sent(async |watch| {
            for time in 1..=100 {
                watch.seen().push(PID, 1, moment(time));
                sleep(Duration::from_millis(100)).await;
            }
        });
        let events: Vec<&String> =
            all.iter().filter(|it| it.starts_with("event: moment")).collect();
        assert!((10..=12).contains(&events.len()), "{events:#?}");
        assert!(events.last().unwrap().contains("\"ended\":\"exited 0\""), "{events:#?}");
        assert!(events[..events.len() - 1].iter().all(|it| it.contains("\"ended\":null")));
    }

    #[test]
    fn idle_stream_sends_comments() {
        let all = sent(async |_| sleep(Duration::from_secs(61)).await);
        assert_eq!(all.iter().filter(|it| *it == ":\n\n").count(), 4, "{all:#?}");
    }
}
