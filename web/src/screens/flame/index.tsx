// Users of the memory: the graph of the call tree, and below it what its functions allocate themselves.
import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import { screenKeys } from "../../keys";
import { theme, useWidth } from "../../parts/canvas";
import { Notice, Skeleton, Trouble } from "../../parts/notice";
import { Choice, Selection, Switches } from "../../parts/switches";
import { found } from "../../state/found";
import { useDocument } from "../../state/documents";
import { saved } from "../../state/offline";
import { expression, moment, pathOf, sample } from "../../state/paths";
import { change, param } from "../../state/route";
import type { Flame, SourceEntry } from "../../types";
import { amount, count, share } from "../../units";
import { Detail } from "./detail";
import { GraphView } from "./graph";
import { InGraph } from "./ingraph";
import { coloursOf, type Colouring, type Colours } from "./colours";
import { layout, type Cell, type Graph } from "./layout";

/** Step of the width that is asked for, in pixels, so that a window that is dragged does not ask each time. */
const STEP = 200;

export function useSearch(): string {
  const text = param("f");
  const [settled, settle] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => settle(text), 150);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

export function matcher(text: string): RegExp | null {
  return text === "" ? null : new RegExp(expression(text));
}

export function FlameScreen({ entry }: { entry: SourceEntry }) {
  const [area, width] = useWidth<HTMLDivElement>();
  const search = useSearch();
  const [direction, frames, around] = [param("dir", "callees"), param("lib", "own"), param("n")];
  const path = param("p");
  const asked = Math.min(10_000, Math.max(200, Math.ceil(width / STEP) * STEP));
  const words = { direction: direction === "callees" ? "" : direction, frames: frames === "own" ? "" : frames, "count": sample(), at: moment() };
  const by = colouringOf(entry);
  const colour = by === "age" || by === "growth" ? by : "";
  const whole = saved === null ? { ...words, colour, width: asked, path, function: around, focus: search === "" ? "" : expression(search) } : { ...words, colour };
  const loaded = useDocument<Flame>(width === 0 || (saved !== null && around !== "") ? null : pathOf(entry, "flame", whole), `flame ${direction} ${frames} ${around} ${sample() ?? ""} ${colour}`);
  const flame = loaded.value;
  const keys = useMemo(() => (path === "" ? [] : path.split(".")), [path]);
  const graph = useMemo(() => (flame === null || width === 0 ? null : layout(flame, keys, width)), [flame, keys, width]);
  const isDark = theme.value === "dark";
  const colours = useMemo(() => (flame === null || graph === null ? null : coloursOf(flame, graph.cells, by, isDark)), [flame, graph, by, isDark]);
  const isMatch = useMemo(() => {
    const text = matcher(param("f"));
    if (text === null || flame === null) return null;
    const matches = flame.functions.map((one) => text.test(one.function) || text.test(one.file) || (one.library !== null && text.test(flame.libraries[one.library]!)));
    return (place: number) => matches[place]!;
  }, [flame, param("f")]);
  const [chosen, choose] = useState<string>("");
  const selected = graph?.cells.find((cell) => cell.path.join(".") === chosen && cell.function !== -1) ?? graph?.zoomed ?? null;
  const [hovered, hover] = useState<Cell | null>(null);
  useEffect(() => {
    if (flame === null || graph === null || isMatch === null) found.value = "";
    else found.value = says(flame, graph.cells, isMatch);
  }, [flame, graph, isMatch]);
  useKeys(entry, selected, flame);
  const zoom = (cell: Cell) => {
    choose(cell.path.join("."));
    change({ p: cell.path.join(".") });
  };
  return (
    <>
      <Tools entry={entry} />
      <Trouble failed={loaded.failed} />
      {around === "" ? null : <Around name={around} />}
      {saved !== null && around !== "" ? <Notice fact="Not in this file:">callers and callees of one function are in Table, of the largest ones.</Notice> : null}
      <div class="flame-area">
        <div ref={area} />
        {flame === null || graph === null || colours === null ? (
          <Skeleton height={saved !== null && around !== "" ? 0 : 240} />
        ) : (
          <GraphView
            graph={graph}
            flame={flame}
            name={entry.name}
            isBottom={param("root", "top") === "bottom"}
            colours={colours}
            isMatch={isMatch}
            selected={selected}
            onSelect={(cell) => choose(cell.path.join("."))}
            onZoom={zoom}
            onHover={hover}
          />
        )}
      </div>
      {flame === null ? null : <InGraph flame={flame} isStale={loaded.isStale} />}
      {flame === null || graph === null || colours === null ? null : (
        <div class="foot">
          <LegendLine colours={colours} graph={graph} flame={flame} />
          <Detail cell={hovered ?? selected ?? graph.zoomed} flame={flame} name={entry.name} />
        </div>
      )}
    </>
  );
}

/**
 * Colouring of the graph. Age and growth need a source that says when its blocks were allocated, and live memory; otherwise only
 * names colour the cells.
 */
function colouringOf(entry: SourceEntry): Colouring {
  const wanted = param("c", "library") as Colouring;
  return COLOURINGS.some(([name]) => name === wanted) && (hasTimes(entry) || !["age", "growth"].includes(wanted)) ? wanted : "library";
}

const COLOURINGS: [Colouring, string][] = [
  ["library", "library"],
  ["own", "own or library"],
  ["age", "age"],
  ["growth", "growth"],
];

function hasTimes(entry: SourceEntry): boolean {
  return entry.pid !== null && !(sample() ?? "").startsWith("alloc");
}

/** Colourings that can be chosen for a source. */
function choices(entry: SourceEntry): [Colouring, string][] {
  return COLOURINGS.filter(([name]) => hasTimes(entry) || (name !== "age" && name !== "growth"));
}

export function LegendLine({ colours, graph, flame }: { colours: Colours; graph: Graph; flame: Flame }) {
  return (
    <div class="legend">
      {colours.legend.map((one) => (
        <span key={one.name}>
          <span class="swatch" style={{ background: one.colour }} aria-hidden="true" />
          {one.isOwn ? <b>{one.name}</b> : one.name}
        </span>
      ))}
      <span>
        <span class="swatch hatch" aria-hidden="true" />
        {colours.hatched}
      </span>
      {graph.merged.frames === 0 ? null : (
        <span class="end">
          merged here: {count(graph.merged.frames)} frames, {amount(graph.merged.cum, flame.unit)}
        </span>
      )}
    </div>
  );
}

/** Cells that match, the bytes of all stacks through one of them, and their share. */
function says(flame: Flame, cells: Cell[], isMatch: (place: number) => boolean): string {
  const matching = cells.filter((cell) => cell.function >= 0 && isMatch(cell.function));
  const outermost = matching.filter((cell) => {
    for (let at = cell.parent; at !== null; at = at.parent) if (at.function >= 0 && isMatch(at.function)) return false;
    return true;
  });
  const value = flame.search?.value.value ?? outermost.reduce((sum, cell) => sum + cell.cum, 0);
  const frames = `${count(matching.length)} frame${matching.length === 1 ? "" : "s"}`;
  return `${frames} · ${amount(value, flame.unit)} · ${share(value, flame.total.value.value)}`;
}

function useKeys(entry: SourceEntry, selected: Cell | null, flame: Flame | null): void {
  useLayoutEffect(() => {
    screenKeys.value = {
      o: () => change({ root: param("root", "top") === "top" ? "bottom" : "" }),
      c: () => {
        const names = choices(entry).map(([name]) => name);
        const next = names[(names.indexOf(colouringOf(entry)) + 1) % names.length]!;
        change({ c: next === "library" ? "" : next });
      },
      s: () => {
        if (selected !== null && selected.function >= 0 && flame !== null) change({ n: flame.functions[selected.function]!.function, p: "" });
      },
    };
    return () => {
      screenKeys.value = {};
    };
  }, [entry, selected, flame]);
}

function Around({ name }: { name: string }) {
  return (
    <Notice fact="Sandwich:">
      callers above <code>{name}</code>, callees below.{" "}
      <button type="button" class="link" onClick={() => change({ n: "" })}>
        Whole graph
      </button>
    </Notice>
  );
}

function Tools({ entry }: { entry: SourceEntry }) {
  return (
    <div class="tools">
      <Choice />
      <Switches label="Root" name="root" options={[["top", "top"], ["bottom", "bottom"]]} usual="top" />
      <Switches label="Direction" name="dir" options={[["callees", "callees"], ["callers", "callers"]]} usual="callees" also={{ p: "" }} />
      <Switches label="Frames" name="lib" options={[["all", "all"], ["nostd", "no C++ std"], ["own", "own only"]]} usual="own" also={{ p: "" }} />
      <Selection label="Colour" name="c" options={choices(entry)} now={colouringOf(entry)} usual="library" />
    </div>
  );
}
