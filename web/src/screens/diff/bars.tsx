// The changes as bars around nothing: each as wide as the larger of before and after, so that what is gone is still seen.
import { useCallback } from "preact/hooks";
import { Canvas, colour, FONT, type Painted } from "../../parts/canvas";
import type { DiffRow, Unit } from "../../types";
import { shortName, signed } from "../../units";

const MOST = 12;
const HEIGHT = 20;

export function Bars({ rows, unit }: { rows: DiffRow[]; unit: Unit }) {
  const shown = rows.slice(0, MOST);
  const paint = useCallback(
    ({ context, width }: Painted) => {
      const larger = (row: DiffRow) => Math.max(row.old_flat.value ?? 0, row.new_flat.value ?? 0);
      const sum = shown.reduce((total, row) => total + larger(row), 0);
      const most = Math.max(1, ...shown.map((row) => Math.abs(row.flat.value ?? 0)));
      let x = 0;
      context.font = `12px ${FONT}`;
      context.textBaseline = "middle";
      for (const row of shown) {
        const wide = (larger(row) / Math.max(1, sum)) * width;
        const change = row.flat.value ?? 0;
        context.fillStyle = colour("noise");
        context.fillRect(x, 0, Math.max(1, wide - 1), HEIGHT);
        context.globalAlpha = Math.sqrt(Math.abs(change) / most);
        context.fillStyle = colour(change > 0 ? "up-fill" : "down-fill");
        context.fillRect(x, 0, Math.max(1, wide - 1), HEIGHT);
        context.globalAlpha = 1;
        const text = `${change > 0 ? "▲" : "▼"} ${shortName(row.function)} ${signed(row.flat, unit)}`;
        if (context.measureText(text).width + 12 < wide) {
          context.fillStyle = colour("text");
          context.fillText(text, x + 6, HEIGHT / 2 + 1);
        }
        x += wide;
      }
    },
    [rows, unit],
  );
  if (shown.length === 0) return null;
  return <Canvas height={HEIGHT} paint={paint} label={`The ${shown.length} largest changes, each as wide as the larger of before and after`} />;
}
