// RSS over live, small: on the time bar and on the first screen.
import { useCallback } from "preact/hooks";
import type { Point } from "../state/series";
import { bytes, clock } from "../units";
import { Canvas, colour, FONT, type Painted } from "./canvas";

interface Shown {
  points: Point[];
  marks: { name: string; unix_ns: number }[];
  height: number;
  hasLabels?: boolean;
  /** Selected spans, as shares of the width. */
  spans?: { from: number; to: number; kind: "a" | "b" }[];
}

export function Trend({ points, marks, height, hasLabels = false, spans = [] }: Shown) {
  const paint = useCallback(
    ({ context, width }: Painted) => {
      if (points.length < 2) return;
      const right = hasLabels ? width - 74 : width;
      const low = height - (hasLabels ? 16 : 3);
      const high = 6;
      const [first, last] = [points[0]!.unix_ns, points.at(-1)!.unix_ns];
      const most = Math.max(1, ...points.map((point) => Math.max(point.rss ?? 0, (point.live ?? 0) + point.half)));
      const x = (ns: number) => ((ns - first) / Math.max(1, last - first)) * right;
      const y = (value: number) => low - (value / most) * (low - high);
      for (const span of spans) {
        context.fillStyle = colour(span.kind === "a" ? "accent-tint" : "up-tint");
        context.fillRect(span.from * right, 0, Math.max(2, (span.to - span.from) * right), height);
      }
      const living = points.filter((point) => point.live !== null);
      context.beginPath();
      living.forEach((point, index) => context[index === 0 ? "moveTo" : "lineTo"](x(point.unix_ns), y(point.live!)));
      if (living.length > 1) {
        context.lineTo(x(living.at(-1)!.unix_ns), low);
        context.lineTo(x(living[0]!.unix_ns), low);
        context.globalAlpha = 0.22;
        context.fillStyle = colour("live");
        context.fill();
        context.globalAlpha = 1;
      }
      line(context, living.map((point) => [x(point.unix_ns), y(point.live!)]), colour("live"), []);
      const resident = points.filter((point) => point.rss !== null);
      line(context, resident.map((point) => [x(point.unix_ns), y(point.rss!)]), colour("text2"), hasLabels ? [4, 3] : []);
      context.font = `11px ${FONT}`;
      context.textBaseline = "top";
      for (const mark of marks) {
        const at = x(mark.unix_ns);
        if (at < 0 || at > right) continue;
        context.fillStyle = colour("line2");
        context.fillRect(at, 0, 1, low);
        context.fillStyle = colour("text2");
        context.fillText(mark.name, at + 4, 1, 120);
      }
      if (!hasLabels) return;
      context.fillStyle = colour("line");
      context.fillRect(0, low, right, 1);
      context.fillStyle = colour("text3");
      context.fillText(clock(first, last - first < 6e11), 0, low + 3);
      const end = clock(last, last - first < 6e11);
      context.fillText(end, right - context.measureText(end).width, low + 3);
      const [rss, live] = [resident.at(-1)?.rss, living.at(-1)?.live];
      label(context, right + 8, rss == null ? null : y(rss), live == null ? null : y(live), rss, live);
    },
    [points, marks, height, hasLabels, spans],
  );
  return <Canvas height={height} paint={paint} label={describe(points)} />;
}

function line(context: CanvasRenderingContext2D, points: [number, number][], style: string, dash: number[]): void {
  context.beginPath();
  points.forEach(([x, y], index) => context[index === 0 ? "moveTo" : "lineTo"](x, y));
  context.strokeStyle = style;
  context.lineWidth = 1.5;
  context.setLineDash(dash);
  context.stroke();
  context.setLineDash([]);
}

function label(context: CanvasRenderingContext2D, x: number, rssAt: number | null, liveAt: number | null, rss: number | null | undefined, live: number | null | undefined): void {
  const top = Math.max(0, Math.min(rssAt ?? 0, (liveAt ?? 99) - 28));
  context.fillStyle = colour("text");
  if (rss != null) {
    context.fillText("RSS", x, top);
    context.fillText(bytes(rss), x, top + 12);
  }
  if (live != null) {
    context.fillStyle = colour("accent");
    context.fillText("live", x, top + 28);
    context.fillText(bytes(live), x, top + 40);
  }
}

export function describe(points: Point[]): string {
  const [first, last] = [points[0], points.at(-1)];
  if (!first || !last) return "No moments yet";
  return `RSS from ${bytes(first.rss)} at ${clock(first.unix_ns)} to ${bytes(last.rss)} at ${clock(last.unix_ns)}; live from ${bytes(first.live)} to ${bytes(last.live)}`;
}
