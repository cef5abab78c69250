// uPlot with RSS, and live with its band. Its selection becomes a window of the address.
import uPlot from "uplot";
import { useEffect, useRef } from "preact/hooks";
import { colour, FONT, theme, useWidth } from "../../parts/canvas";
import { windowOf } from "../../parts/timebar";
import type { Point } from "../../state/series";
import { change, param } from "../../state/route";
import { bytes, clock } from "../../units";

const HEIGHT = 300;
/** Steps between lines: 1 KiB, 2 KiB … */
const BINARY = Array.from({ length: 40 }, (_, power) => 2 ** (power + 10));

function options(width: number, points: Point[], marks: { name: string; unix_ns: number }[], says: (text: string) => void): uPlot.Options {
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
      { label: "RSS", stroke: colour("text2"), width: 1.5, dash: [5, 4], spanGaps: true },
      { label: "live", stroke: colour("live"), width: 2, spanGaps: true },
      { label: "live +", stroke: "transparent", points: { show: false }, spanGaps: true },
      { label: "live −", stroke: "transparent", points: { show: false }, spanGaps: true },
    ],
    bands: [{ series: [3, 4], fill: `${colour("live")}33` }],
    hooks: {
      init: [
        (self) => {
          self.over.addEventListener("pointerdown", (event) => (isShift = event.shiftKey), true);
        },
      ],
      setCursor: [
        (self) => {
          const point = self.cursor.idx == null ? undefined : points[self.cursor.idx];
          says(point ? `${clock(point.unix_ns)}   RSS ${bytes(point.rss)}   live ${bytes(point.live)}${point.half > 0 ? ` ±${bytes(point.half)}` : ""}` : "");
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
          for (const mark of marks) {
            const x = self.valToPos(mark.unix_ns / 1e9, "x", true);
            ctx.fillStyle = colour("line2");
            ctx.fillRect(x, self.bbox.top, devicePixelRatio, self.bbox.height);
            ctx.fillStyle = colour("text2");
            ctx.fillText(mark.name, x + 4, self.bbox.top + 12 * devicePixelRatio);
          }
          ctx.restore();
        },
      ],
    },
  };
}

function columns(points: Point[]): uPlot.AlignedData {
  return [
    points.map((point) => point.unix_ns / 1e9),
    points.map((point) => point.rss),
    points.map((point) => point.live),
    points.map((point) => (point.live === null ? null : point.live + point.half)),
    points.map((point) => (point.live === null ? null : point.live - point.half)),
  ];
}

export function Plot({ points, marks }: { points: Point[]; marks: { name: string; unix_ns: number }[] }) {
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
    const made = new uPlot(options(width, points, marks, say), columns(points), area.current);
    plot.current = made;
    return () => made.destroy();
    // Not while a window is being dragged: the picture stays as it is.
  }, [width, shown, a, b, isHeld.current ? 0 : points.length]);
  return (
    <>
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
