// What Go's collector does: the heap before and after each collection, and the pauses.
import { useEffect, useRef, useState } from "preact/hooks";
import { Heading } from "../../parts/figures";
import { CommandLine } from "../../parts/notice";
import { ask } from "../../state/api";
import { isPaused } from "../../state/documents";
import { saved } from "../../state/offline";
import { pathOf } from "../../state/paths";
import type { Collection, Collector, SourceEntry } from "../../types";
import { bytes, clock, count, duration, share } from "../../units";

/** Collections that are drawn. */
const MOST = 60;
const HEIGHT = 120;
const PAUSES = 26;

/** Adds what ended since the look before. Of several, the heap was seen before the first and after the last. */
function added(all: Collection[], before: Collector | null, now: Collector): Collection[] {
  const ended = now.collections.map((one, index, { length }) => ({
    ...one,
    before_bytes: index === 0 && before !== null ? before.collector.in_use : null,
    goal_bytes: index === 0 && before !== null ? before.collector.goal : null,
    live_bytes: index + 1 === length ? now.collector.live : null,
    is_forced: length === 1 && before !== null ? now.collector.forced > before.collector.forced : null,
  }));
  return [...all, ...ended].slice(-MOST);
}

function useCollections(entry: SourceEntry): { now: Collector | null; all: Collection[] } {
  const [now, setNow] = useState<Collector | null>(null);
  const seen = useRef<{ now: Collector | null; all: Collection[] }>({ now: null, all: [] });
  useEffect(() => {
    if (saved !== null || !entry.is_running) return;
    const stop = new AbortController();
    const look = () => {
      if (isPaused.value) return;
      const since = seen.current.now?.collector.collections ?? 0;
      ask<Collector>(pathOf(entry, "collections", { since }), stop.signal)
        .then((found) => {
          seen.current = { now: found, all: added(seen.current.all, seen.current.now, found) };
          setNow(found);
        })
        // What was seen stays.
        .catch(() => undefined);
    };
    look();
    const timer = setInterval(look, 1000);
    return () => {
      clearInterval(timer);
      stop.abort();
    };
  }, [entry.id]);
  return { now, all: seen.current.all };
}

export function Collections({ entry }: { entry: SourceEntry }) {
  const { now, all } = useCollections(entry);
  if (now === null) return null;
  const minutes = all.length < 2 ? 0 : (all.at(-1)!.end_ns - all[0]!.end_ns) / 60e9;
  const rate = minutes > 0 ? `${count((all.length - 1) / minutes)} a minute; ` : "";
  return (
    <section>
      <Heading title="Collections" says={`${rate}${bytes(now.collector.live)} live after the last one; the collector takes ${share(now.cpu_share, 1)} of the CPU time that the program could have`} />
      {all.length === 0 ? <p>None has ended yet.</p> : <Bars of={all} />}
      <p>Which stacks make it work:</p>
      <CommandLine text={`ramson gc ${entry.pid}`} />
    </section>
  );
}

/** A bar for each collection: what was live after it, what it freed, its goal, and its pause. */
function Bars({ of }: { of: Collection[] }) {
  const highest = Math.max(1, ...of.flatMap((one) => [one.before_bytes ?? 0, one.goal_bytes ?? 0, one.live_bytes ?? 0]));
  const longest = Math.max(1, ...of.map((one) => one.pause_ns));
  const y = (value: number) => HEIGHT - (value / highest) * HEIGHT;
  const known = (value: number | null) => (value === null ? "not seen" : bytes(value));
  return (
    <figure>
      <svg viewBox={`0 0 ${MOST * 10} ${HEIGHT + PAUSES + 4}`} preserveAspectRatio="none" width="100%" height={HEIGHT + PAUSES + 4} role="img" aria-label={`${of.length} collections`}>
        {of.map((one, index) => {
          const live = one.live_bytes ?? 0;
          const before = Math.max(one.before_bytes ?? 0, live);
          const x = index * 10;
          return (
            <g key={one.number}>
              <title>{`#${one.number} at ${clock(one.end_ns)}: ${known(one.before_bytes)} → ${known(one.live_bytes)}, pause ${duration(one.pause_ns)}${one.is_forced ? ", asked for by the program" : ""}`}</title>
              <rect x={x} y={y(before)} width={8} height={HEIGHT - y(before)} fill="var(--gofree)" />
              <rect x={x} y={y(live)} width={8} height={HEIGHT - y(live)} fill="var(--go)" />
              {one.goal_bytes === null ? null : <rect x={x} y={y(one.goal_bytes)} width={8} height={1.5} fill="var(--text3)" />}
              <rect x={x} y={HEIGHT + 4} width={8} height={Math.max(1, (one.pause_ns / longest) * PAUSES)} fill="var(--free)" />
            </g>
          );
        })}
      </svg>
      <figcaption class="pm">dark: live after the collection; light: what it freed; line: its goal (heaps are known since this screen was opened); below: how long it stopped the program, up to {duration(longest)}</figcaption>
    </figure>
  );
}
