// Changes between two moments. All changes inside their intervals are one row.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Change, Figure, Heading, Name } from "../../parts/figures";
import { Notice, Skeleton, Trouble } from "../../parts/notice";
import { Choice } from "../../parts/switches";
import { saved, savedOld } from "../../state/offline";
import { found } from "../../state/found";
import { change, param } from "../../state/route";
import { useSeries } from "../../state/series";
import type { DiffRow, Diff, Estimate, Side, SourceEntry, Unit } from "../../types";
import { absolute, amount, clock, count, duration, estimated, relative, signed } from "../../units";
import { keptWindows } from "../../parts/timebar";
import { matcher } from "../flame";
import { nearest } from "../timeline";
import { Bars } from "./bars";
import { DiffGraph } from "./graph";
import { momentsOf, useDiff } from "./read";

export function DiffScreen({ entry }: { entry: SourceEntry }) {
  const { loaded, compared } = useDiff(entry);
  const { points, kept } = useSeries(entry);
  const moments = momentsOf();
  if (saved !== null && savedOld === null) return <NotHere>it is one moment. To save a comparison: ramson export NEW --old OLD -f html.</NotHere>;
  if (entry.pid === null && savedOld === null) return <NotHere>it is one moment. To compare two files: ramson diff OLD NEW.</NotHere>;
  if (moments === null && savedOld === null) return <Pick entry={entry} windows={kept === null ? [] : keptWindows(kept, points.at(-1)!.unix_ns)} />;
  const last = points.at(-1)?.unix_ns ?? Date.now() * 1e6;
  const at = (seconds: number) => clock(points.length === 0 ? last - seconds * 1e9 : nearest(points, last - seconds * 1e9).unix_ns);
  const isSwapped = param("swap") === "1";
  const sides = savedOld !== null ? [savedOld, entry.source] : [at(moments!.old), at(moments!.new)];
  const [from, to] = isSwapped ? [...sides].reverse() : sides;
  const diff = loaded.value;
  return (
    <>
      <div class="subject">
        <h1>
          {from} → {to}
        </h1>
        {diff === null ? null : (
          <span class="quiet">
            {estimated(diff.old_total, diff.unit)} <span class="pm">{relative(diff.old_total)}</span> → {estimated(diff.new_total, diff.unit)} <span class="pm">{relative(diff.new_total)}</span>:{" "}
            <Change of={diff.total} unit={diff.unit} />, {verdict(diff.total)}
          </span>
        )}
        <button type="button" class="plain" onClick={() => change({ swap: isSwapped ? "" : "1" })}>
          Swap
        </button>
        {savedOld !== null ? null : (
          <button type="button" class="plain" onClick={() => change({ a: "", b: "", swap: "" })}>
            Other moments
          </button>
        )}
      </div>
      {savedOld === null || (diff?.old.pid ?? diff?.new.pid) === undefined ? null : <p class="quiet">{[diff!.old, diff!.new].map(nameOf).join(" → ")}</p>}
      <div class="tools" style={{ padding: "10px 0", border: 0 }}>
        <Choice />
      </div>
      <Trouble failed={loaded.failed} />
      {diff === null ? loaded.failed === null ? <Skeleton height={300} /> : null : <Rows diff={diff} />}
      {compared === null ? null : <DiffGraph entry={entry} compared={compared} isSwapped={isSwapped} />}
    </>
  );
}

const nameOf = (side: Side) => (side.pid === undefined ? side.name : `${side.name} (pid ${side.pid})`);

/** In the words of `ramson diff`. */
function verdict({ value, half_width_95: half }: Estimate): string {
  if (value === 0) return "no change";
  if (value === null || half === null) return "interval unknown";
  return Math.abs(value) <= half ? "not significant" : "significant";
}

function NotHere({ children }: { children: ComponentChildren }) {
  return (
    <>
      <h1 class="hidden-label">Diff</h1>
      <Notice fact="Not in this file:">{children}</Notice>
    </>
  );
}

function Pick({ windows, entry }: { windows: number[]; entry: SourceEntry }) {
  return (
    <>
      <div class="subject">
        <h1>Diff</h1>
        {windows.length > 0 ? <span class="quiet">Any two moments: drag over the time bar or the timeline, or choose:</span> : null}
      </div>
      {windows.length > 0 ? (
        <p style={{ marginTop: "12px" }}>
          {windows.map((seconds) => (
            <button key={seconds} type="button" class="plain" style={{ marginRight: "8px" }} onClick={() => change({ a: `${seconds}-0` })}>
              {entry.is_running ? `${duration(seconds * 1e9)} ago → now` : `its last ${duration(seconds * 1e9)}`}
            </button>
          ))}
        </p>
      ) : (
        <Notice fact="No history was recorded." command={entry.is_running ? `ramson history ${entry.pid}` : undefined}>
          {entry.is_running ? "To keep moments from now on:" : ""}
        </Notice>
      )}
    </>
  );
}

function ratio(row: DiffRow): string {
  const [before, after] = [row.old_flat.value ?? 0, row.new_flat.value ?? 0];
  if (before === 0) return after === 0 ? "" : "new";
  if (after === 0) return "gone";
  const percent = (100 * (after - before)) / before;
  return after / before >= 10 ? `×${(after / before).toFixed(0)}` : `${percent > 0 ? "+" : "−"}${Math.abs(percent).toFixed(Math.abs(percent) < 10 ? 1 : 0)}\u00a0%`;
}

function Rows({ diff }: { diff: Diff }) {
  const [isOpen, open] = useState(false);
  const text = matcher(param("f"));
  const all = diff.rows.filter((row) => (row.flat.value ?? 0) !== 0 || (row.old_flat.value ?? 0) !== 0 || (row.new_flat.value ?? 0) !== 0);
  const rows = all.filter((row) => text === null || text.test(row.function) || text.test(row.file));
  const size = (row: DiffRow) => Math.abs(row.flat.value ?? 0);
  // A change with an unknown interval is never called noise.
  const isMeant = (row: DiffRow) => row.is_significant || row.flat.half_width_95 === null;
  const moved = rows.filter((row) => isMeant(row) && size(row) > 0).sort((a, b) => size(b) - size(a));
  const noise = rows.filter((row) => !moved.includes(row));
  const sum = noise.reduce((total, row) => total + (row.flat.value ?? 0), 0);
  const half = Math.sqrt(noise.reduce((total, row) => total + (row.flat.half_width_95 ?? 0) ** 2, 0));
  useEffect(() => {
    found.value = text === null ? "" : `${count(rows.length)} rows`;
  }, [rows.length, param("f")]);
  return (
    <>
      <Bars rows={moved} unit={diff.unit} />
      <section>
        <Heading title="By size of change" says="each function's own allocations" />
        <table>
          <thead>
            <tr>
              <th scope="col">function</th>
              <th scope="col" class="n" style={{ width: "110px" }}>
                Δ
              </th>
              <th scope="col" class="n" style={{ width: "90px" }}>
                ±
              </th>
              <th scope="col" class="n hide-s" style={{ width: "76px" }}>
                Δ %
              </th>
              <th scope="col" class="n hide-m" style={{ width: "150px" }}>
                before
              </th>
              <th scope="col" class="n hide-m" style={{ width: "150px" }}>
                after
              </th>
            </tr>
          </thead>
          <tbody>
            {moved.map((row) => (
              <Row key={row.function + row.file + row.line} row={row} unit={diff.unit} />
            ))}
            {noise.length === 0 ? null : (
              <tr class="noise">
                <td>
                  <button type="button" class="twist" aria-expanded={isOpen} aria-label="Changes inside their interval" onClick={() => open(!isOpen)}>
                    {isOpen ? "▾" : "▸"}
                  </button>
                  {noise.length === 1 ? "1 function" : `${count(noise.length)} functions`} without a significant change
                </td>
                <td class="n">{signed({ value: sum, half_width_95: half }, diff.unit)}</td>
                <td class="n pm">±{amount(half, diff.unit)}</td>
                <td class="hide-s" />
                <td class="hide-m" />
                <td class="hide-m" />
              </tr>
            )}
            {isOpen ? noise.slice(0, 300).map((row) => <Row key={row.function + row.file + row.line} row={row} unit={diff.unit} />) : null}
          </tbody>
        </table>
      </section>
    </>
  );
}

function Row({ row, unit }: { row: DiffRow; unit: Unit }) {
  return (
    <tr class={row.is_significant ? "" : "noise"}>
      <td>
        <Name of={row} />
      </td>
      <td class="n">
        <Change of={row.flat} unit={unit} isBare />
      </td>
      <td class="n pm">{absolute(row.flat, unit)}</td>
      <td class="n hide-s">{row.is_significant ? ratio(row) : ""}</td>
      <td class="n hide-m">
        <Figure of={row.old_flat} unit={unit} />
      </td>
      <td class="n hide-m">
        <Figure of={row.new_flat} unit={unit} />
      </td>
    </tr>
  );
}
