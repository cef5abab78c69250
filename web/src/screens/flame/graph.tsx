// The canvas, what points at it, and the same tree as text.
import { useCallback, useRef } from "preact/hooks";
import { Canvas, theme, type Painted } from "../../parts/canvas";
import type { Flame } from "../../types";
import { amount, duration, share } from "../../units";
import { changeOf, type Colours } from "./colours";
import { cellAt, neighbour, ROW, type Cell, type Graph } from "./layout";
import { nameOf, paint, top, type Picture } from "./paint";
import { isOver, seen, zoomBetween, type Zoom } from "./zoom";

interface Of {
  graph: Graph;
  flame: Flame;
  name: string;
  isBottom: boolean;
  colours: Colours;
  isMatch: ((place: number) => boolean) | null;
  selected: Cell | null;
  onSelect: (cell: Cell) => void;
  onZoom: (cell: Cell) => void;
  onHover: (cell: Cell | null) => void;
}

const MOST_IN_TEXT = 150;

export function GraphView(of: Of) {
  const { graph, flame, name, isBottom, colours, isMatch, selected } = of;
  const rows = graph.rows[1] - graph.rows[0] + 1;
  const isDark = theme.value === "dark";
  const motion = useRef<{ last: Picture | null; zoom: Zoom | null }>({ last: null, zoom: null });
  const draw = useCallback(
    (on: Painted) => {
      const picture = { graph, flame, name, isBottom, isDark, colours, isMatch };
      const begun = zoomBetween(motion.current.last, picture, on.width, performance.now());
      // A finer answer that comes on the way does not end it.
      const zoom = begun ?? motion.current.zoom;
      motion.current = { last: picture, zoom };
      const turn = (): boolean => {
        const now = performance.now();
        const isMoving = zoom !== null && !isOver(zoom, now);
        paint(on, isMoving ? seen(zoom, picture, on.width, now) : picture);
        return isMoving;
      };
      return turn() ? turn : undefined;
    },
    [graph, flame, name, isBottom, isDark, colours, isMatch],
  );
  const at = (event: MouseEvent): Cell | null => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const line = Math.floor((event.clientY - box.top) / ROW);
    return cellAt(graph, event.clientX - box.left, isBottom ? graph.rows[1] - line : line + graph.rows[0]);
  };
  const key = (event: KeyboardEvent) => {
    const from = selected ?? graph.zoomed;
    const arrows: Record<string, "in" | "out" | "left" | "right"> = {
      ArrowDown: isBottom ? "out" : "in",
      ArrowUp: isBottom ? "in" : "out",
      ArrowLeft: "left",
      ArrowRight: "right",
    };
    const arrow = arrows[event.key];
    if (arrow !== undefined) {
      event.preventDefault();
      const next = neighbour(graph, from, arrow);
      if (next !== null) of.onSelect(next);
    } else if (event.key === "Enter" && from.function !== -1) {
      event.preventDefault();
      of.onZoom(from);
    }
  };
  return (
    <div
      tabIndex={0}
      role="application"
      aria-label={`Flame graph of ${name}: arrow keys move, Enter zooms, Escape goes back`}
      onKeyDown={key}
      style={{ position: "relative", height: `${rows * ROW}px` }}
    >
      <Canvas
        height={rows * ROW}
        paint={draw}
        label={`${graph.cells.length} cells in ${rows} rows`}
        onMouseMove={(event) => of.onHover(at(event))}
        onMouseLeave={() => of.onHover(null)}
        onClick={(event) => {
          const cell = at(event);
          if (cell === null) return;
          if (cell.function === -1) of.onSelect(cell);
          else of.onZoom(cell);
        }}
      />
      {selected === null ? null : <Outline of={selected} y={top(graph, selected.row, isBottom)} />}
      <Tree graph={graph} flame={flame} name={name} />
    </div>
  );
}

function Outline({ of, y }: { of: Cell; y: number }) {
  const style = {
    position: "absolute",
    left: `${of.x}px`,
    top: `${y}px`,
    width: `${Math.max(3, of.width - 1)}px`,
    height: `${ROW - 1}px`,
    border: "2px solid var(--text)",
    pointerEvents: "none",
  } as const;
  return <div style={style} aria-hidden="true" />;
}

/** The largest cells, for those who do not see the canvas. */
function Tree({ graph, flame, name }: { graph: Graph; flame: Flame; name: string }) {
  const total = Math.abs(flame.total.value.value ?? 0);
  return (
    <ul class="hidden-label" aria-label="The largest frames of the graph">
      {graph.cells.slice(0, MOST_IN_TEXT).map((cell, index) => (
        <li key={index}>
          {`level ${cell.row}: ${nameOf(cell, { flame, name })}, ${amount(cell.cum, flame.unit)}, ${share(Math.abs(cell.cum), total)}${says(cell, flame)}`}
        </li>
      ))}
    </ul>
  );
}

/** Figure that the colour stands for, in words. */
function says(cell: Cell, flame: Flame): string {
  if (flame.tint === null || cell.tint === null) return "";
  switch (flame.tint.by) {
    case "age":
      return `, mean age ${duration(cell.tint)}`;
    case "growth":
      return `, growth per hour ${changeOf(cell, flame)}`;
    default:
      return `, change ${changeOf(cell, flame)}`;
  }
}
