// uPlot with RSS, and live with its band. Its selection becomes a window of the address.
import uPlot from "uplot";
import { useEffect, useRef } from "preact/hooks";
import { colour, FONT, theme, useWidth } from "../../parts/canvas";
import { windowOf } from "../../parts/timebar";
import type { Point } from "../../state/series";
import { KINDS } from "../../parts/rss";
import { change, param } from "../../state/route";
import type { Step } from "../../types";
import { bytes, clock, duration, signed } from "../../units";

const HEIGHT = 300;
/** Steps between lines: 1 KiB, 2 KiB … */
const BINARY = Array.from({ length: 40 }, (_, power) => 2 ** (power + 10));

/** Kinds that any of the moments has. */
function kindsOf(points: Point[]): [string, string][] {
  return KINDS.filter(([kind]) => points.some((point) => Math.abs(point.parts?.[kind] ?? 0) >= 1));
}

/** Parts are hatched where that is what their bar is. */
function filling(kind: string): CanvasPattern | string {
  const base = colour(kind);
  if (kind !== "free") return base;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const on = tile.getContext("2d");
  if (on === null) return base;
  on.fillStyle = base;
  on.fillRect(0, 0, 8, 8);
  on.strokeStyle = colour("bg");
  on.globalAlpha = 0.55;
  on.lineWidth = 2;
  on.beginPath();
  for (const from of [-8, 0, 8]) {
    on.moveTo(from, 8);
    on.lineTo(from + 8, 0);
  }
  on.stroke();
  return on.createPattern(tile, "repeat") ?? base;
}

interface Of {
  points: Point[];
  marks: { name: string; unix_ns: number }[];
  steps: Step[];
}

function options(width: number, { points, marks, steps }: Of, says: (text: string) => void): uPlot.Options {
  const kinds = kindsOf(points);
  const last = points.at(-1)!.unix_ns / 1e9;
  const axis = { stroke: colour("text3"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: `11px ${FONT}` };
  let isShift = false;
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => () => (change({ a: "", b: "" }), null) } },
    scales: { x: { time: true }, y: { range: (_self, _low, high) => [0, high * 1.08] } },
    axes: [
      { ...axis, values: (_self, ticks, _axis, _space, step) => ticks.map((tick) => clock(tick * 1e9, step < 60)) },
      { ...axis, size: 70, incrs: BINARY, values: (_self, ticks) => ticks.map((tick) => bytes(tick)) },
    ],
    series: [
      {},
      // The highest sum first, so that each lower one is painted over it.
      ...[...kinds].reverse().map(([kind, name]): uPlot.Series => {
        const fill = filling(kind);
        return { label: name, fill: () => fill, width: 0, points: { show: false }, spanGaps: true };
      }),
      { label: "RSS", stroke: colour("text"), width: 1.5, dash: [5, 4], points: { show: false }, spanGaps: true },
      { label: "live", stroke: colour("live"), width: 2, points: { show: false }, spanGaps: true },
      { label: "live +", stroke: "transparent", points: { show: false }, spanGaps: true },
      { label: "live −", stroke: "transparent", points: { show: false }, spanGaps: true },
    ],
    bands: [{ series: [kinds.length + 3, kinds.length + 4], fill: `${colour("bg")}44` }],
    hooks: {
      init: [
        (self) => {
          self.over.addEventListener("pointerdown", (event) => (isShift = event.shiftKey), true);
        },
      ],
      setCursor: [
        (self) => {
          const point = self.cursor.idx == null ? undefined : points[self.cursor.idx];
          says(point === undefined ? "" : readOut(point));
        },
      ],
      setSelect: [
        (self) => {
          if (self.select.width < 4) return;
          const from = last - self.posToVal(self.select.left, "x");
          const to = last - self.posToVal(self.select.left + self.select.width, "x");
          change({ [isShift ? "b" : "a"]: `${Math.round(from)}-${Math.max(0, Math.round(to))}` });
        },
      ],
      draw: [
        (self) => {
          const { ctx } = self;
          ctx.save();
          ctx.font = `${11 * devicePixelRatio}px ${FONT}`;
          for (const [kind, tint] of [["a", "accent"], ["b", "up-fill"]] as const) {
            const window = windowOf(param(kind));
            if (window === null) continue;
            const left = self.valToPos(last - window[0], "x", true);
            const right = self.valToPos(last - window[1], "x", true);
            ctx.globalAlpha = 0.14;
            ctx.fillStyle = colour(tint);
            ctx.fillRect(left, self.bbox.top, Math.max(2, right - left), self.bbox.height);
            ctx.globalAlpha = 1;
            ctx.fillText(kind.toUpperCase(), left + 4, self.bbox.top + 14 * devicePixelRatio);
          }
          const taken: [number, number][] = [];
          for (const step of steps) {
            const x = self.valToPos(step.to_unix_ns / 1e9, "x", true);
            const near = points.reduce((best, point) => (Math.abs(point.unix_ns - step.to_unix_ns) < Math.abs(best.unix_ns - step.to_unix_ns) ? point : best));
            const y = self.valToPos(near.rss ?? 0, "y", true);
            ctx.fillStyle = colour("text");
            ctx.beginPath();
            ctx.arc(x, y, 3.5 * devicePixelRatio, 0, 7);
            ctx.fill();
            const text = `${signed({ value: step.rss, half_width_95: 0 })} in ${duration(step.to_unix_ns - step.from_unix_ns)}`;
            const isLate = x > self.bbox.left + self.bbox.width / 2;
            const wide = ctx.measureText(text).width + 14 * devicePixelRatio;
            const [left, right] = isLate ? [x - wide, x] : [x, x + wide];
            // Labels without room are in the table only.
            if (taken.some(([from, to]) => left < to && right > from)) continue;
            taken.push([left, right]);
            ctx.textAlign = isLate ? "right" : "left";
            ctx.fillText(text, x + (isLate ? -7 : 7) * devicePixelRatio, Math.max(self.bbox.top + 12 * devicePixelRatio, y - 8 * devicePixelRatio));
            ctx.textAlign = "left";
          }
          for (const mark of marks) {
            const x = self.valToPos(mark.unix_ns / 1e9, "x", true);
            ctx.fillStyle = colour("line2");
            ctx.fillRect(x, self.bbox.top, devicePixelRatio, self.bbox.height);
            ctx.fillStyle = colour("text2");
            const isLate = x > self.bbox.left + self.bbox.width / 2;
            ctx.textAlign = isLate ? "right" : "left";
            ctx.fillText(mark.name, x + (isLate ? -4 : 4) * devicePixelRatio, self.bbox.top + 12 * devicePixelRatio);
            ctx.textAlign = "left";
          }
          ctx.restore();
        },
      ],
    },
  };
}

/** A moment in one line. */
function readOut(point: Point): string {
  const parts = KINDS.filter(([kind]) => kind !== "live" && Math.abs(point.parts?.[kind] ?? 0) >= 1).map(([kind, name]) => `${name.split(",")[0]} ${bytes(point.parts![kind])}`);
  const live = `live ${bytes(point.parts?.["live"] ?? point.live)}${point.half > 0 ? ` ±${bytes(point.half)}` : ""}`;
  return [clock(point.unix_ns), `RSS ${bytes(point.rss)}`, live, ...parts].join("   ");
}

function columns(points: Point[]): uPlot.AlignedData {
  const kinds = kindsOf(points);
  const sumTo = (point: Point, last: number) =>
    point.parts === null ? null : kinds.slice(0, last + 1).reduce((sum, [kind]) => sum + Math.max(0, point.parts![kind] ?? 0), 0);
  return [
    points.map((point) => point.unix_ns / 1e9),
    ...kinds.map((_, at) => points.map((point) => sumTo(point, kinds.length - 1 - at))),
    points.map((point) => point.rss),
    points.map((point) => point.live),
    points.map((point) => (point.live === null ? null : point.live + point.half)),
    points.map((point) => (point.live === null ? null : point.live - point.half)),
  ];
}

export function Plot({ points, marks, steps }: Of) {
  const [area, width] = useWidth<HTMLDivElement>();
  const says = useRef<HTMLParagraphElement>(null);
  const shown = theme.value;
  const [a, b] = [param("a"), param("b")];
  const isHeld = useRef(false);
  const plot = useRef<uPlot | null>(null);
  useEffect(() => {
    if (area.current === null || width === 0) return;
    const say = (text: string) => {
      if (says.current !== null) says.current.textContent = text;
    };
    const made = new uPlot(options(width, { points, marks, steps }, say), columns(points), area.current);
    plot.current = made;
    return () => made.destroy();
    // Not while a window is being dragged: the picture stays as it is.
  }, [width, shown, a, b, isHeld.current ? 0 : points.length, steps.length]);
  return (
    <>
      <div class="legend bare">
        {kindsOf(points).map(([kind, name]) => (
          <span key={kind}>
            <span class={`swatch c-${kind}`} aria-hidden="true" />
            {name}
          </span>
        ))}
        <span>
          <span class="dash" aria-hidden="true" />
          RSS
        </span>
      </div>
      <p class="readout mono" ref={says} aria-hidden="true" />
      <div
        class="chart"
        ref={area}
        style={{ minHeight: `${HEIGHT}px` }}
        onPointerDown={() => (isHeld.current = true)}
        onPointerUp={() => (isHeld.current = false)}
      />
    </>
  );
}
