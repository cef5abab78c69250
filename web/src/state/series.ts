// RSS and live over time: what a history keeps, then what this page has seen.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { partsOf, type Parts } from "../parts/rss";
import type { SourceEntry, Step, Timeline } from "../types";
import { useDocument, type Loaded } from "./documents";
import { moments } from "./live";
import { saved } from "./offline";
import { pathOf } from "./paths";

export interface Point {
  unix_ns: number;
  rss: number | null;
  live: number | null;
  half: number;
  /** Bytes of the parts of RSS, by their kinds. */
  parts: Parts | null;
}

/** Between these, in ns since 1970, a history has the stacks, so that moments can be compared. */
export interface Kept {
  first: number;
  last: number;
}

export interface Series {
  points: Point[];
  /** `null`: there is no history. */
  kept: Kept | null;
  marks: { name: string; unix_ns: number }[];
  loaded: Loaded<Timeline>;
}

/** Moments that a history keeps, in ns: the server can be asked for each as it was. */
export const keptMoments = signal<number[]>([]);
/** Last moment at which the process that is shown was seen, in ns. */
export const lastMomentNs = signal(0);

export function useSeries(entry: SourceEntry): Series {
  const loaded = useDocument<Timeline>(entry.pid === null ? null : pathOf(entry, "timeline", { rows: 2000 }));
  const rows = loaded.value?.rows ?? [];
  const kept: Point[] = rows.map((row) => ({
    unix_ns: row.time_unix_ns,
    rss: row.rss,
    live: row.live.value,
    half: row.live.half_width_95 ?? 0,
    parts: row.terms === null ? null : partsOf(row.terms),
  }));
  useEffect(() => {
    keptMoments.value = rows.map((row) => row.time_unix_ns);
  }, [loaded.value]);
  const [firstKept, lastKept] = [kept[0]?.unix_ns ?? 0, kept.at(-1)?.unix_ns ?? 0];
  const seen = moments.value.filter((moment) => moment.unix_ns < firstKept || moment.unix_ns > lastKept || moment.terms !== null);
  const points = kept.concat(seen.map((moment) => ({ unix_ns: moment.unix_ns, rss: moment.rss, live: moment.live, half: moment.half, parts: moment.terms === null ? null : partsOf(moment.terms) })));
  // The server's clock may be behind this machine's.
  points.sort((a, b) => a.unix_ns - b.unix_ns);
  const last = points.at(-1)?.unix_ns ?? 0;
  useEffect(() => {
    lastMomentNs.value = last;
  }, [last]);
  const marks = (loaded.value?.marks ?? []).map((mark) => ({ name: mark.name, unix_ns: mark.time_unix_ns }));
  return { points, kept: kept.length === 0 ? null : { first: firstKept, last: lastKept }, marks, loaded };
}

/** The steps that a history has, then those that the server has seen after it. */
export function useSteps(entry: SourceEntry, timeline: Timeline | null): Step[] {
  const path = entry.pid === null || saved !== null ? null : pathOf(entry, "moments", { rows: 1 });
  const seen = useDocument<{ steps: Step[] }>(path, "moments").value?.steps ?? [];
  const kept = timeline?.steps ?? [];
  const last = timeline?.rows.at(-1)?.time_unix_ns ?? 0;
  return kept.concat(seen.filter((step) => step.from_unix_ns >= last));
}
