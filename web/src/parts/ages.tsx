// How old live bytes are: a bar for each doubling of age.
import { useCallback } from "preact/hooks";
import type { Ages } from "../types";
import { duration, estimated, relative } from "../units";
import { Canvas, colour, type Painted } from "./canvas";

/** The first bar ends here, and has what is younger: about a second, or less where all is young. */
function firstOf(ages: Ages): number {
  return 2 ** Math.min(30, Math.max(0, Math.ceil(Math.log2(ages.oldest_ns + 1)) - LEAST_BARS));
}

const LEAST_BARS = 8;

/** Bars to the oldest. */
function barsOf(ages: Ages): number[] {
  const first = firstOf(ages);
  const count = Math.max(LEAST_BARS, Math.ceil(Math.log2((ages.oldest_ns + 1) / first)));
  const bars = new Array<number>(count).fill(0);
  for (const of of ages.histogram) {
    const at = of.from_ns < first ? 0 : Math.round(Math.log2(of.from_ns / first));
    bars[Math.min(count - 1, Math.max(0, at))]! += of.bytes.value ?? 0;
  }
  return bars;
}

/** In words: what is read out. */
function describe(ages: Ages): string {
  const parts = ages.histogram.map((of) => `${duration(of.from_ns)} to ${duration(of.to_ns)}: ${estimated(of.bytes)} ${relative(of.bytes)}`);
  return `Live bytes by age: ${parts.join("; ")}`;
}

export function AgeBars({ of, height = 56, isBare = false }: { of: Ages; height?: number; isBare?: boolean }) {
  const text = JSON.stringify(of.histogram);
  const paint = useCallback(
    ({ context, width, height: high }: Painted) => {
      const bars = barsOf(of);
      const most = Math.max(1, ...bars);
      const wide = width / bars.length;
      context.fillStyle = colour("line2");
      context.fillRect(0, high - 1, width, 1);
      context.fillStyle = colour("live");
      bars.forEach((value, at) => {
        const tall = value === 0 ? 0 : Math.max(1.5, (value / most) * (high - 2));
        context.fillRect(at * wide + 0.5, high - tall, Math.max(1, wide - 1), tall);
      });
    },
    [text, of.oldest_ns],
  );
  const canvas = <Canvas height={height} paint={paint} label={describe(of)} />;
  if (isBare) return canvas;
  return (
    <>
      <p class="figure">
        {duration(of.p50_ns)} <span class="pm">p50</span>
      </p>
      {canvas}
      <div class="ends">
        <span>{duration(firstOf(of))}</span>
        <span>mean {duration(of.mean_ns)}</span>
        <span>{duration(of.oldest_ns)}</span>
      </div>
    </>
  );
}
