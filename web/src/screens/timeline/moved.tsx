// The largest significant changes of the window.
import { useCallback } from "preact/hooks";
import { Canvas, colour, type Painted } from "../../parts/canvas";
import { Change, Name } from "../../parts/figures";
import { Skeleton, Trouble } from "../../parts/notice";
import { useDiff } from "../diff/read";
import type { SourceEntry } from "../../types";
import { absolute, amount, estimated } from "../../units";
import { useCurves } from "./curves";

const ROWS = 10;

export function Moved({ entry, from, to }: { entry: SourceEntry; from: number; to: number }) {
  const { loaded } = useDiff(entry);
  const curves = useCurves(entry, from, to);
  const diff = loaded.value;
  if (diff === null) return loaded.failed === null ? <Skeleton height={120} /> : <Trouble failed={loaded.failed} />;
  const rows = diff.rows.filter((row) => row.is_significant && (row.flat.value ?? 0) !== 0).slice(0, ROWS);
  if (rows.length === 0) return <p class="dim">No significant change.</p>;
  const hasCurves = curves.length > 1;
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">function</th>
          {hasCurves ? (
            <th scope="col" class="hide-s" style={{ width: "84px" }}>
              over time
            </th>
          ) : null}
          <th scope="col" class="n hide-m" style={{ width: "72px" }}>
            from
          </th>
          <th scope="col" class="n hide-m" style={{ width: "72px" }}>
            to
          </th>
          <th scope="col" class="n" style={{ width: "98px" }}>
            Δ
          </th>
          <th scope="col" class="n" style={{ width: "76px" }}>
            ±
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.function + row.file}>
            <td>
              <Name of={row} />
            </td>
            {hasCurves ? (
              <td class="hide-s">
                <Curve of={curves.map((values) => values.get(row.function) ?? 0)} isUp={(row.flat.value ?? 0) > 0} says={(value) => amount(value, diff.unit)} />
              </td>
            ) : null}
            <td class="n hide-m">{estimated(row.old_flat, diff.unit)}</td>
            <td class="n hide-m">{estimated(row.new_flat, diff.unit)}</td>
            <td class="n">
              <Change of={row.flat} unit={diff.unit} isBare />
            </td>
            <td class="n pm">{absolute(row.flat, diff.unit)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Curve({ of, isUp, says }: { of: number[]; isUp: boolean; says: (value: number) => string }) {
  const text = of.join();
  const paint = useCallback(
    ({ context, width, height }: Painted) => {
      const most = Math.max(1, ...of);
      context.beginPath();
      of.forEach((value, at) => context[at === 0 ? "moveTo" : "lineTo"](1 + (at / (of.length - 1)) * (width - 2), height - 2 - (value / most) * (height - 4)));
      context.strokeStyle = colour(isUp ? "up-fill" : "down-fill");
      context.lineWidth = 2;
      context.stroke();
    },
    [text, isUp],
  );
  return <Canvas height={22} paint={paint} label={`Over the window: ${of.map(says).join(", ")}`} />;
}
