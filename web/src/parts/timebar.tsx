// The time bar: drag selects window A, Shift-drag B, a click clears.
import { useRef, useState } from "preact/hooks";
import { current } from "../state/live";
import { change, param } from "../state/route";
import { useSeries, type Kept, type Point } from "../state/series";
import { bytes, clock } from "../units";
import { Link } from "./link";
import { Trend } from "./trend";
import type { SourceEntry } from "../types";

export function TimeBar() {
  const entry = current();
  return entry === null || entry.pid === null ? null : <Bar entry={entry} />;
}

/** Windows in the address are seconds before the last moment: `120-60`. */
export function windowOf(text: string): [number, number] | null {
  const found = /^(\d+)(?:-(\d+))?$/.exec(text);
  return found === null ? null : [Number(found[1]), Number(found[2] ?? found[1])];
}

/** Whether the stacks are kept of a window's start; `lastNs` is what the window is before. In whole seconds, as windows are. */
export function isKept(window: [number, number], kept: Kept | null, lastNs: number): boolean {
  return kept !== null && lastNs - window[0] * 1e9 > kept.first - 1e9;
}

/** Windows up to the last moment that are kept: round ones, and all of it. */
export function keptWindows(kept: Kept, lastNs: number): number[] {
  const all = Math.floor((lastNs - kept.first) / 1e9);
  return [...[60, 600, 3600, 86_400].filter((seconds) => seconds < all), all];
}

export function secondsBefore(points: Point[], share: number): number {
  const [first, last] = [points[0]!.unix_ns, points.at(-1)!.unix_ns];
  return Math.round(((1 - Math.max(0, Math.min(1, share))) * (last - first)) / 1e9);
}

function Bar({ entry }: { entry: SourceEntry }) {
  const { points, kept, marks } = useSeries(entry);
  const area = useRef<HTMLDivElement>(null);
  const [drag, setDrag] = useState<{ from: number; to: number; kind: "a" | "b" } | null>(null);
  if (points.length < 2) return null;
  const [first, last] = [points[0]!, points.at(-1)!];
  const at = (event: PointerEvent) => {
    const box = area.current!.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
  };
  const span = (last.unix_ns - first.unix_ns) / 1e9;
  const shown = (["a", "b"] as const).flatMap((kind) => {
    const window = windowOf(param(kind));
    return window === null ? [] : [{ kind, from: Math.max(0, 1 - window[0] / span), to: 1 - window[1] / span }];
  });
  const a = windowOf(param("a"));
  const ended = (event: PointerEvent) => {
    if (drag === null) return;
    const [from, to] = [Math.min(drag.from, at(event)), Math.max(drag.from, at(event))];
    setDrag(null);
    if (to - from < 0.005) change({ a: "", b: "" });
    else change({ [drag.kind]: `${secondsBefore(points, from)}-${secondsBefore(points, to)}` });
  };
  return (
    <div class="time-bar" role="region" aria-label="Time">
      <span>
        <b>RSS</b> {bytes(first.rss)} → <b>{bytes(last.rss)}</b>
      </span>
      <div
        class="where"
        ref={area}
        onPointerDown={(event) => setDrag({ from: at(event), to: at(event), kind: event.shiftKey ? "b" : "a" })}
        onPointerMove={(event) => drag && setDrag({ ...drag, to: at(event) })}
        onPointerUp={ended}
      >
        <Trend points={points} marks={marks} height={44} spans={drag === null ? shown : [{ ...drag, from: Math.min(drag.from, drag.to), to: Math.max(drag.from, drag.to) }]} />
      </div>
      <div class="says hide-s">
        {a === null ? (
          <span class="dim">
            {clock(first.unix_ns, false)}–{clock(last.unix_ns, false)} · drag to select
          </span>
        ) : isKept(a, kept, last.unix_ns) ? (
          <Link to="diff">Compare</Link>
        ) : (
          <span class="dim">no stacks were kept for that time</span>
        )}
      </div>
    </div>
  );
}
