// Users of the memory, exactly: functions with their stacks, callers and callees.
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from "@tanstack/virtual-core";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { screenKeys } from "../../keys";
import { Change, Name, Under } from "../../parts/figures";
import { Skeleton, Trouble } from "../../parts/notice";
import { Choice, Switches } from "../../parts/switches";
import { found } from "../../state/found";
import { useDocument } from "../../state/documents";
import { moment, pathOf, sample } from "../../state/paths";
import { change, param } from "../../state/route";
import { byFunction, idOf } from "../../state/suspects";
import type { Leaks, SourceEntry, Suspect, Top, TopRow } from "../../types";
import { absolute, amount, count, duration, estimated, relative, share } from "../../units";
import { matcher } from "../flame";
import { Expanded } from "./expanded";
import { Side } from "./side";

const VIRTUAL_FROM = 200;
const ROW_HEIGHT = 34;

type Order = "flat" | "cum" | "objects" | "name";
const ORDERS: Record<Order, (row: TopRow) => number | string> = {
  flat: (row) => -(row.flat.value ?? 0),
  cum: (row) => -(row.cum.value ?? 0),
  objects: (row) => -(row.objects.value ?? 0),
  name: (row) => row.function,
};

export function TableScreen({ entry }: { entry: SourceEntry }) {
  const isLines = param("g") === "lines";
  const isAll = param("lib") === "all";
  const words = { view: "functions", rows: 0, "count": sample(), at: moment(), granularity: isLines ? "lines" : undefined, "all-frames": isAll ? "1" : undefined };
  const loaded = useDocument<Top>(pathOf(entry, "report", words), "table");
  const leaks = useDocument<Leaks>(entry.pid === null || isLines || isAll ? null : pathOf(entry, "leaks", { at: moment() }), "leaks");
  const top = loaded.value;
  const order = (param("o", "-flat").replace(/^-/, "") as Order) in ORDERS ? (param("o", "-flat").replace(/^-/, "") as Order) : "flat";
  const rows = useMemo(() => {
    const text = matcher(param("f"));
    const all = (top?.rows ?? []).filter((row) => text === null || text.test(row.function) || text.test(row.file));
    const of = ORDERS[order];
    const sorted = [...all].sort((a, b) => (of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : 0));
    return param("o").startsWith("-") || param("o") === "" || order === "name" ? sorted : sorted.reverse();
  }, [top, param("f"), param("o")]);
  const known = useMemo(() => byFunction(leaks.value?.suspects ?? []), [leaks.value]);
  const sum = rows.reduce((total, row) => total + (row.flat.value ?? 0), 0);
  const isFiltered = param("f") !== "";
  useEffect(() => {
    found.value = top === null || !isFiltered ? "" : `${count(rows.length)} rows · ${amount(sum, top.unit)} · ${share(sum, top.total.value)}`;
  }, [top, rows, isFiltered]);
  const selected = rows.find((row) => idOf(row) === param("n").replace("\t", "\0")) ?? rows[0] ?? null;
  useKeys(selected);
  return (
    <>
      <div class="tools">
        <Choice />
        <Switches label="Rows" name="g" options={[["functions", "function"], ["lines", "line"]]} usual="functions" />
        <Switches label="Library frames" name="lib" options={[["own", "attributed to callers"], ["all", "shown"]]} usual="own" />
        {top === null ? null : (
          <span class="end">
            {count(rows.length)} rows, {amount(sum, top.unit)} of {estimated(top.total, top.unit)}
          </span>
        )}
      </div>
      <Trouble failed={loaded.failed} />
      {top === null ? (
        <Skeleton height={400} />
      ) : (
        <div class="split">
          <Rows rows={rows} top={top} known={known} selected={selected} entry={entry} />
          {selected === null ? <div class="side" /> : <Side entry={entry} row={selected} unit={top.unit} total={top.total} ages={known.get(idOf(selected))?.ages ?? null} />}
        </div>
      )}
    </>
  );
}

function useKeys(selected: TopRow | null): void {
  useLayoutEffect(() => {
    screenKeys.value = {
      e: () => {
        if (selected !== null) change({ e: param("e") === "1" ? "" : "1" }, true);
      },
    };
    return () => {
      screenKeys.value = {};
    };
  }, [selected]);
}

interface RowsOf {
  rows: TopRow[];
  top: Top;
  known: Map<string, Suspect>;
  selected: TopRow | null;
  entry: SourceEntry;
}

/** Only what is on the screen is in the page, from so many rows on. */
function useVirtual(amountOf: number, area: { current: HTMLDivElement | null }): { first: number; last: number; before: number; after: number } {
  const [, redraw] = useState(0);
  const isVirtual = amountOf >= VIRTUAL_FROM;
  const [virtual] = useState(
    () =>
      new Virtualizer<HTMLDivElement, Element>({
        count: 0,
        getScrollElement: () => area.current,
        estimateSize: () => ROW_HEIGHT,
        scrollToFn: elementScroll,
        observeElementRect,
        observeElementOffset,
        overscan: 12,
        onChange: () => redraw((drawn) => drawn + 1),
      }),
  );
  virtual.setOptions({ ...virtual.options, count: isVirtual ? amountOf : 0 });
  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => virtual._willUpdate());
  if (!isVirtual) return { first: 0, last: amountOf, before: 0, after: 0 };
  const items = virtual.getVirtualItems();
  const [first, last] = [items[0], items.at(-1)];
  if (!first || !last) return { first: 0, last: 60, before: 0, after: (amountOf - 60) * ROW_HEIGHT };
  return { first: first.index, last: last.index + 1, before: first.start, after: virtual.getTotalSize() - last.end };
}

function Rows({ rows, top, known, selected, entry }: RowsOf) {
  const area = useRef<HTMLDivElement>(null);
  const { first, last, before, after } = useVirtual(rows.length, area);
  const largest = rows.reduce((most, row) => Math.max(most, row.flat.value ?? 0), 0);
  const total = top.total.value ?? 0;
  return (
    <div class="scroll" ref={area} tabIndex={0} role="region" aria-label="Functions" style={{ maxHeight: "calc(100vh - 190px)", padding: "0 20px" }}>
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            <Sort by="name" title="function" />
            <Sort by="flat" title="own" width={90} isNumber />
            <th scope="col" class="n hide-s" style={{ width: "72px" }}>
              own %
            </th>
            <th scope="col" class="n" style={{ width: "66px" }}>
              ±
            </th>
            <Sort by="cum" title="total" width={90} isNumber isFirstToGo />
            <th scope="col" class="n hide-m" style={{ width: "72px" }}>
              total %
            </th>
            <Sort by="objects" title="objects" width={80} isNumber isFirstToGo />
            <th scope="col" class="n hide-m" style={{ width: "76px" }}>
              age p50
            </th>
            <th scope="col" class="n hide-m" style={{ width: "112px" }}>
              growth/h
            </th>
            <th scope="col" class="n hide-l" style={{ width: "84px" }}>
              ±
            </th>
          </tr>
        </thead>
        <tbody>
          {before > 0 ? (
            <tr aria-hidden="true">
              <td style={{ height: `${before}px`, border: 0 }} />
            </tr>
          ) : null}
          {rows.slice(first, last).map((row, index) => {
            const suspect = known.get(idOf(row));
            const isSelected = row === selected;
            const isOpen = isSelected && param("e") === "1";
            const choose = () => change({ n: idOf(row).replace("\0", "\t") }, true);
            return (
              <>
                <tr key={`${idOf(row)} ${row.line}`} class={`row${isSelected ? " selected" : ""}`} aria-rowindex={first + index + 2} onClick={choose}>
                  <td>
                    <button
                      type="button"
                      class="twist"
                      aria-expanded={isOpen}
                      aria-label={`Stacks of ${row.function}`}
                      onClick={(event) => {
                        event.stopPropagation();
                        change({ n: idOf(row).replace("\0", "\t"), e: isOpen ? "" : "1" }, true);
                      }}
                    >
                      {isOpen ? "▾" : "▸"}
                    </button>
                    <Name of={row} />
                  </td>
                  <td class="n">
                    <b>{estimated(row.flat, top.unit)}</b>
                    <Under share={largest > 0 ? (row.flat.value ?? 0) / largest : 0} />
                  </td>
                  <td class="n hide-s">{share(row.flat.value, total)}</td>
                  <td class="n pm">{row.flat.value === 0 ? "" : relative(row.flat)}</td>
                  <td class="n hide-m">
                    {estimated(row.cum, top.unit)}
                    <Under share={total > 0 ? (row.cum.value ?? 0) / total : 0} />
                  </td>
                  <td class="n hide-m">{share(row.cum.value, total)}</td>
                  <td class="n hide-m">{count(row.objects.value)}</td>
                  <td class="n hide-m">{suspect?.ages ? duration(suspect.ages.p50_ns) : ""}</td>
                  <td class="n hide-m">{suspect?.growth ? <Change of={suspect.growth.bytes_per_hour} isBare /> : ""}</td>
                  <td class="n hide-l pm">{suspect?.growth ? absolute(suspect.growth.bytes_per_hour) : ""}</td>
                </tr>
                {isOpen ? <Expanded entry={entry} row={row} unit={top.unit} total={top.total} /> : null}
              </>
            );
          })}
          {after > 0 ? (
            <tr aria-hidden="true">
              <td style={{ height: `${after}px`, border: 0 }} />
            </tr>
          ) : null}
        </tbody>
      </table>
    </div>
  );
}

function Sort({ by, title, width, isNumber = false, isFirstToGo = false }: { by: Order; title: string; width?: number; isNumber?: boolean; isFirstToGo?: boolean }) {
  const order = param("o", "-flat");
  const isBy = order.replace(/^-/, "") === by;
  const isDown = order.startsWith("-");
  const next = isBy && isDown ? by : `-${by}`;
  return (
    <th
      scope="col"
      class={`${isNumber ? "n" : ""}${isFirstToGo ? " hide-m" : ""}`}
      style={width === undefined ? {} : { width: `${width}px` }}
      aria-sort={isBy ? (isDown && by !== "name" ? "descending" : "ascending") : "none"}
    >
      <button type="button" onClick={() => change({ o: next === "-flat" ? "" : next })}>
        {title}
        {isBy ? (isDown ? " ↓" : " ↑") : ""}
      </button>
    </th>
  );
}
