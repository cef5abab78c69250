// Live bytes of functions over a window: at some of the moments that a history keeps, which are read one after another.
import { useEffect, useState } from "preact/hooks";
import { ask } from "../../state/api";
import { saved } from "../../state/offline";
import { pathOf, sample } from "../../state/paths";
import { param } from "../../state/route";
import { keptMoments } from "../../state/series";
import type { SourceEntry, Top } from "../../types";

const MOST = 8;

/** Bytes by the function's name at each of the moments, oldest first. */
export type Curves = Map<string, number>[];

function chosen(from: number, to: number): number[] {
  const within = keptMoments.value.filter((ns) => ns >= from && ns <= to);
  if (within.length <= MOST) return within;
  return Array.from({ length: MOST }, (_, at) => within[Math.round((at * (within.length - 1)) / (MOST - 1))]!);
}

export function useCurves(entry: SourceEntry, from: number, to: number): Curves {
  const [curves, set] = useState<Curves>([]);
  const hasMoments = saved === null && chosen(from, to).length > 1;
  // Once for a window, when its ends are known: they move with what is seen last.
  useEffect(() => {
    set([]);
    if (!hasMoments) return;
    const stop = new AbortController();
    const read = async () => {
      const all: Curves = [];
      for (const ns of chosen(from, to)) {
        const at = new Date(Math.ceil(ns / 1e6)).toISOString();
        const asked = ask<Top>(pathOf(entry, "report", { view: "functions", rows: 100, "count": sample(), at }), stop.signal);
        // A moment may be thinned out of the history meanwhile.
        const top = await asked.catch(() => null);
        if (stop.signal.aborted) return;
        if (top === null) continue;
        const values = new Map<string, number>();
        for (const row of top.rows) values.set(row.function, (values.get(row.function) ?? 0) + (row.flat.value ?? 0));
        all.push(values);
      }
      set(all);
    };
    void read();
    return () => stop.abort();
  }, [hasMoments, param("a"), param("b"), sample()]);
  return curves;
}
