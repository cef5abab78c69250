// RSS and live over time: what a history keeps, then what this page has seen.
import type { SourceEntry, Timeline } from "../types";
import { useDocument, type Loaded } from "./documents";
import { moments } from "./live";
import { pathOf } from "./paths";

export interface Point {
  unix_ns: number;
  rss: number | null;
  live: number | null;
  half: number;
}

export interface Series {
  points: Point[];
  marks: { name: string; unix_ns: number }[];
  loaded: Loaded<Timeline>;
}

export function useSeries(entry: SourceEntry): Series {
  const loaded = useDocument<Timeline>(entry.pid === null ? null : pathOf(entry, "timeline", { rows: 2000 }));
  const rows = loaded.value?.rows ?? [];
  const kept: Point[] = rows.map((row) => ({
    unix_ns: row.time_unix_ns,
    rss: row.rss,
    live: row.live.value,
    half: row.live.half_width_95 ?? 0,
  }));
  const last = kept.at(-1)?.unix_ns ?? 0;
  const seen = moments.value.filter((moment) => moment.unix_ns > last);
  const points = kept.concat(seen.map((moment) => ({ unix_ns: moment.unix_ns, rss: moment.rss, live: moment.live, half: moment.half })));
  // The server's clock may be behind this machine's.
  points.sort((a, b) => a.unix_ns - b.unix_ns);
  const marks = (loaded.value?.marks ?? []).map((mark) => ({ name: mark.name, unix_ns: mark.time_unix_ns }));
  return { points, marks, loaded };
}

export interface Step {
  from: Point;
  to: Point;
  bytes: number;
}

/** Where RSS rose or fell at once by much, and live did not follow. */
export function steps(points: Point[]): Step[] {
  const known = points.filter((point) => point.rss !== null && point.live !== null);
  const most = Math.max(...known.map((point) => point.rss ?? 0), 1);
  const found: Step[] = [];
  for (let at = 1; at < known.length; at += 1) {
    const [from, to] = [known[at - 1]!, known[at]!];
    const rss = to.rss! - from.rss!;
    const live = to.live! - from.live!;
    if (Math.abs(rss) < Math.max(0.03 * most, 1 << 20)) continue;
    if (Math.abs(rss - live) > 0.6 * Math.abs(rss)) found.push({ from, to, bytes: rss });
  }
  return found.sort((a, b) => Math.abs(b.bytes) - Math.abs(a.bytes)).slice(0, 5);
}
