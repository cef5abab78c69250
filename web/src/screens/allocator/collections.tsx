// What Go's collector does: the heap before and after each collection, the pauses, and the stacks that make it work.
import { useEffect, useState } from "preact/hooks";
import { Heading, Name } from "../../parts/figures";
import { CommandLine } from "../../parts/notice";
import { ask } from "../../state/api";
import { isPaused } from "../../state/documents";
import { saved } from "../../state/offline";
import { pathOf } from "../../state/paths";
import type { Collection, Gc, SourceEntry } from "../../types";
import { bytes, clock, count, duration, relative, share } from "../../units";

/** Collections that are drawn: the server sends no more. */
const MOST = 60;
const HEIGHT = 120;
const PAUSES = 26;
const BETWEEN_MS = 2000;

function useCollections(entry: SourceEntry): Gc | null {
  const [now, setNow] = useState<Gc | null>(null);
  useEffect(() => {
    if (saved !== null || !entry.is_running) return;
    const stop = new AbortController();
    let timer = 0;
    const look = async () => {
      try {
        if (!isPaused.value) setNow(await ask<Gc>(pathOf(entry, "gc"), stop.signal));
      } catch {
        // What was seen stays.
      }
      if (!stop.signal.aborted) timer = window.setTimeout(look, BETWEEN_MS);
    };
    void look();
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [entry.id]);
  return now;
}

export function Collections({ entry }: { entry: SourceEntry }) {
  const now = useCollections(entry);
  if (now === null || now.collector === null) return null;
  const all = now.collections;
  const minutes = all.length < 2 ? 0 : (all.at(-1)!.end_ns - all[0]!.end_ns) / 60e9;
  const rate = minutes > 0 ? (all.length - 1) / minutes : 0;
  const often = rate > 0 ? `${count(rate)} a minute; ` : "";
  return (
    <section>
      <Heading title="Collections" says={`${often}${bytes(now.collector.live)} live after the last one; the collector takes ${share(now.cpu_share, 1)} of the CPU time that the program could have`} />
      {all.length === 0 ? <p>None has ended since this screen was opened.</p> : <Bars of={all} />}
      {now.allocated === null ? <p class="quiet">Which stacks make it work is known after 3 collections.</p> : <Garbage of={now} rate={rate} />}
      <CommandLine text={`ramson gc ${entry.pid}`} />
    </section>
  );
}

/** The stacks that allocated most since this screen was opened: the collector works as often as they fill the heap. */
function Garbage({ of, rate }: { of: Gc; rate: number }) {
  const { rows, total } = of.allocated!;
  const seconds = Math.max(of.allocated_in_seconds, 1e-9);
  return (
    <table>
      <caption>Stacks that make it work</caption>
      <thead>
        <tr>
          <th scope="col" class="n" style={{ width: "100px" }}>
            allocated/s
          </th>
          <th scope="col" class="n" style={{ width: "64px" }}>
            share
          </th>
          <th scope="col" class="n hide-s" style={{ width: "64px" }}>
            ±
          </th>
          <th scope="col" class="n hide-s" style={{ width: "110px" }}>
            collections/min
          </th>
          <th scope="col">allocated by</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => {
          const part = (row.value.value ?? 0) / Math.max(total.value ?? 0, 1);
          const [leaf, ...callers] = row.frames;
          if (leaf === undefined) return null;
          return (
            <tr key={row.frames.map((frame) => `${frame.function}:${frame.line}`).join()}>
              <td class="n">
                <b>{bytes((row.value.value ?? 0) / seconds)}</b>
              </td>
              <td class="n">{share(part, 1)}</td>
              <td class="n hide-s pm">{relative(row.value)}</td>
              <td class="n hide-s">{count(part * rate)}</td>
              <td>
                <Name of={leaf} />
                {callers.slice(0, 3).map((caller) => (
                  <p class="quiet" key={`${caller.function}:${caller.line}`}>
                    ← <Name of={caller} />
                  </p>
                ))}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

/** A bar for each collection: what was live after it, what it freed, its goal, and its pause. */
function Bars({ of }: { of: Collection[] }) {
  const highest = Math.max(1, ...of.flatMap((one) => [one.before_bytes ?? 0, one.goal_bytes ?? 0, one.live_bytes ?? 0, one.released_bytes ?? 0]));
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
              <title>{`#${one.number} at ${clock(one.end_ns)}: ${known(one.before_bytes)} → ${known(one.live_bytes)}, pause ${duration(one.pause_ns)}${one.assist_ns === null ? "" : `, assist ${duration(one.assist_ns)}`}${one.is_forced ? ", asked for by the program" : ""}`}</title>
              <rect x={x} y={y(before)} width={8} height={HEIGHT - y(before)} fill="var(--gofree)" />
              <rect x={x} y={y(live)} width={8} height={HEIGHT - y(live)} fill="var(--go)" />
              {one.goal_bytes === null ? null : <rect x={x} y={y(one.goal_bytes)} width={8} height={1.5} fill="var(--text3)" />}
              {one.released_bytes === null ? null : <rect x={x} y={y(one.released_bytes)} width={8} height={1.5} fill="var(--free)" />}
              <rect x={x} y={HEIGHT + 4} width={8} height={Math.max(1, (one.pause_ns / longest) * PAUSES)} fill="var(--free)" />
            </g>
          );
        })}
      </svg>
      <figcaption class="pm">dark: live after the collection; light: what it freed; grey line: its goal; coloured line: returned to the kernel (scavenged); below: how long it stopped the program, up to {duration(longest)}</figcaption>
    </figure>
  );
}
