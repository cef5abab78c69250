// Live bytes of functions over a window: at some of the moments that a history keeps, as many as can be read in a short time.
import { useEffect, useState } from "preact/hooks";
import { ask } from "../../state/api";
import { saved } from "../../state/offline";
import { pathOf, sample } from "../../state/paths";
import { param } from "../../state/route";
import { keptMoments } from "../../state/series";
import type { SourceEntry, Top } from "../../types";

const MOST = 8;
const MOST_MS = 3000;

/** Bytes by the function's name at each of the moments, oldest first. */
export type Curves = Map<string, number>[];

function chosen(from: number, to: number): number[] {
  const within = keptMoments.value.filter((ns) => ns >= from && ns <= to);
  if (within.length <= MOST) return within;
  return Array.from({ length: MOST }, (_, at) => within[Math.round((at * (within.length - 1)) / (MOST - 1))]!);
}

export function useCurves(entry: SourceEntry, from: number, to: number): Curves {
  const [curves, set] = useState<Curves>([]);
  const hasMoments = saved === null && keptMoments.value.length > 0;
  // Once for a window: its ends move with what is seen last.
  useEffect(() => {
    set([]);
    if (!hasMoments) return;
    const stop = new AbortController();
    const read = async () => {
      const began = performance.now();
      const all: Curves = [];
      for (const ns of chosen(from, to)) {
        if (performance.now() - began > MOST_MS) return;
        const at = new Date(Math.ceil(ns / 1e6)).toISOString();
        const top = await ask<Top>(pathOf(entry, "report", { view: "top", rows: 100, "sample-index": sample(), at }), stop.signal);
        const values = new Map<string, number>();
        for (const row of top.rows) values.set(row.function, (values.get(row.function) ?? 0) + (row.flat.value ?? 0));
        all.push(values);
      }
      set(all);
    };
    // A moment may be thinned out of the history meanwhile: the table is whole without the curves.
    read().catch(() => undefined);
    return () => stop.abort();
  }, [hasMoments, param("a"), param("b"), sample()]);
  return curves;
}
