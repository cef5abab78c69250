// Two moments of one process: the ends of window A; with a window B, the ends of both.
import { useDocument, type Loaded } from "../../state/documents";
import { savedOld } from "../../state/offline";
import { pathOf, sample } from "../../state/paths";
import { param } from "../../state/route";
import { useSeries } from "../../state/series";
import { windowOf } from "../../parts/timebar";
import type { Diff, SourceEntry } from "../../types";

/** Seconds before the last moment; 0: that. */
export interface Moments {
  old: number;
  new: number;
}

/** A moment as the server and the command line understand it: before now, or before what a process that is gone was last seen. */
export function wordOf(seconds: number, entry: SourceEntry, lastNs: number): string {
  if (seconds === 0) return "now";
  return entry.is_running ? `-${seconds}s` : new Date(Math.ceil(lastNs / 1e6 - seconds * 1000)).toISOString();
}

export function momentsOf(): Moments | null {
  const [a, b] = [windowOf(param("a")), windowOf(param("b"))];
  if (a === null) return null;
  if (b === null) return { old: a[0], new: a[1] };
  const [first, second] = [a[1], b[1]];
  return { old: Math.max(first, second), new: Math.min(first, second) };
}

/** Moments that are compared, in the words of the server; `null`: nothing is chosen. */
export interface Compared {
  old: string;
  /** `undefined`: now. */
  at: string | undefined;
}

function useCompared(entry: SourceEntry): Compared | null {
  const moments = momentsOf();
  const last = useSeries(entry).points.at(-1)?.unix_ns;
  if (savedOld !== null) return { old: "saved", at: undefined };
  if (moments === null || last === undefined) return null;
  return { old: wordOf(moments.old, entry, last), at: moments.new === 0 ? undefined : wordOf(moments.new, entry, last) };
}

export function useDiff(entry: SourceEntry): { loaded: Loaded<Diff>; compared: Compared | null } {
  const compared = useCompared(entry);
  const isSwapped = param("swap") === "1";
  const words = { ...compared, rows: 0, "count": sample() };
  const loaded = useDocument<Diff>(compared === null ? null : pathOf(entry, "diff", words), `diff ${compared?.old} ${compared?.at}`);
  return { loaded: isSwapped && loaded.value !== null ? { ...loaded, value: swapped(loaded.value) } : loaded, compared };
}

const minus = (of: { value: number | null; half_width_95: number | null }) => ({ ...of, value: of.value === null ? null : -of.value });

function swapped(diff: Diff): Diff {
  return {
    ...diff,
    old: diff.new,
    new: diff.old,
    old_total: diff.new_total,
    new_total: diff.old_total,
    total: minus(diff.total),
    rows: diff.rows.map((row) => ({ ...row, flat: minus(row.flat), cum: minus(row.cum), objects: minus(row.objects), old_flat: row.new_flat, new_flat: row.old_flat })),
  };
}
