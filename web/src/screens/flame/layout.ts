// Places of the cells of a tree. The server's tree is in its own order: each node before the nodes that it leads to, the largest first.
import type { Flame, Nodes } from "../../types";

export const ROW = 21;
const LEAST_PX = 3;
const LEAST_MERGED_PX = 1.5;

export interface Cell {
  /** Pixels from the left. */
  x: number;
  width: number;
  /** Rows from the function or the whole in the middle; callers are negative. */
  row: number;
  /** Place among the functions; -1: merged, -2: the whole. */
  function: number;
  cum: number;
  half: number | null;
  flat: number;
  objects: number;
  /** Frames that are merged here. */
  merged: number;
  /** Value that colours the cell: ns, bytes per hour, or the unit of the values; null: nothing. */
  tint: number | null;
  tintHalf: number | null;
  /** A frame that leads to the zoomed one. */
  isAbove: boolean;
  /** Keys from the start of the tree. */
  path: string[];
  parent: Cell | null;
}

export interface Graph {
  cells: Cell[];
  /** The lowest and the highest row. */
  rows: [number, number];
  /** Sums over all frames that are merged in the picture. */
  merged: { frames: number; cum: number };
  zoomed: Cell;
}

const key = (flame: Flame, place: number) => flame.functions[place]!.key.toString(36);

function cellOf(nodes: Nodes, at: number, x: number, width: number, row: number): Cell {
  return {
    x,
    width,
    row,
    function: nodes.function[at]!,
    cum: nodes.cum[at] ?? 0,
    half: nodes.half_width_95[at] ?? null,
    flat: nodes.flat[at] ?? 0,
    objects: nodes.objects[at] ?? 0,
    merged: nodes.merged[at]!,
    tint: nodes.tint?.[at] ?? null,
    tintHalf: nodes.tint_half_width_95?.[at] ?? null,
    isAbove: false,
    path: [],
    parent: null,
  };
}

/** Lays out nodes from `start` on, as far as they are below `parent`. `step` is 1 towards callees, -1 towards callers. */
function below(flame: Flame, nodes: Nodes, start: number, parent: Cell, step: 1 | -1, graph: Graph): void {
  const base = start < nodes.depth.length ? nodes.depth[start]! : 0;
  const scale = parent.cum === 0 ? 0 : parent.width / Math.abs(parent.cum);
  const parents: Cell[] = [parent];
  const edges: number[] = [parent.x];
  const rests: (Cell | null)[] = [null];
  let hidden = Infinity;
  for (let at = start; at < nodes.depth.length; at += 1) {
    const depth = nodes.depth[at]! - base;
    if (depth < 0) break;
    const isHidden = depth > hidden;
    if (!isHidden) hidden = Infinity;
    if (isHidden) {
      const rest = rests[hidden]!;
      rest.merged += Math.max(1, nodes.merged[at]!);
      graph.merged.frames += Math.max(1, nodes.merged[at]!);
      continue;
    }
    const owner = parents[depth]!;
    const x = edges[depth]!;
    const cell = cellOf(nodes, at, x, Math.abs(nodes.cum[at] ?? 0) * scale, owner.row + step);
    cell.parent = owner;
    edges[depth] = x + cell.width;
    if (cell.function < 0 || cell.width < LEAST_PX) {
      hidden = depth;
      const frames = Math.max(1, cell.merged);
      graph.merged.frames += frames;
      graph.merged.cum += cell.cum;
      const rest = rests[depth];
      if (rest && rest.parent === owner) {
        rest.width = Math.max(LEAST_MERGED_PX, x + cell.width - rest.x);
        rest.cum += cell.cum;
        rest.objects += cell.objects;
        rest.tint = null;
        rest.merged += frames;
      } else {
        const made = { ...cell, function: -1, merged: frames, width: Math.max(LEAST_MERGED_PX, cell.width), half: null, flat: 0 };
        rests[depth] = made;
        graph.cells.push(made);
        spread(graph, made.row);
      }
      continue;
    }
    cell.path = [...owner.path, key(flame, cell.function)];
    graph.cells.push(cell);
    spread(graph, cell.row);
    parents[depth + 1] = cell;
    edges[depth + 1] = x;
    rests[depth + 1] = null;
  }
}

function spread(graph: Graph, row: number): void {
  graph.rows = [Math.min(graph.rows[0], row), Math.max(graph.rows[1], row)];
}

/** The picture of a tree, zoomed to `path`; of what is known of it, where the server's answer is of a shorter path. */
export function layout(flame: Flame, path: string[], width: number): Graph {
  const whole: Cell = {
    x: 0,
    width,
    row: 0,
    function: -2,
    cum: flame.around?.value.value ?? flame.total.value.value ?? 0,
    half: (flame.around ?? flame.total).value.half_width_95,
    flat: 0,
    objects: (flame.around ?? flame.total).objects.value ?? 0,
    merged: 0,
    tint: flame.tint?.figure.value ?? null,
    tintHalf: flame.tint?.figure.half_width_95 ?? null,
    isAbove: false,
    path: [],
    parent: null,
  };
  const graph: Graph = { cells: [whole], rows: [0, 0], merged: { frames: 0, cum: 0 }, zoomed: whole };
  const lead = (cell: Cell) => {
    graph.zoomed.isAbove = true;
    cell.parent = graph.zoomed;
    cell.path = [...graph.zoomed.path, key(flame, cell.function)];
    graph.zoomed = cell;
    graph.cells.push(cell);
    spread(graph, cell.row);
  };
  // The tree around functions begins with them: they are the whole then.
  const isAround = flame.around !== null && flame.nodes.depth.filter((depth) => depth === 0).length === 1 && flame.nodes.function[0]! >= 0;
  const first = isAround ? 1 : 0;
  if (isAround) whole.path = [key(flame, flame.nodes.function[0]!)];
  let matched = Math.min(first, path.length);
  for (let at = first; at < flame.path.depth.length; at += 1) {
    const isOnPath = matched < path.length && key(flame, flame.path.function[at]!) === path[matched];
    if (!isOnPath) break;
    lead(cellOf(flame.path, at, 0, width, graph.zoomed.row + 1));
    matched += 1;
  }
  const { nodes } = flame;
  let start = flame.path.depth.length === 0 ? first : 0;
  let depth = start;
  const isOfAnotherPath = matched < flame.path.depth.length;
  for (let at = start; at < nodes.depth.length && matched < path.length && !isOfAnotherPath; at += 1) {
    if (nodes.depth[at]! < depth) break;
    if (nodes.depth[at] !== depth || nodes.function[at]! < 0 || key(flame, nodes.function[at]!) !== path[matched]) continue;
    lead(cellOf(nodes, at, 0, width, graph.zoomed.row + 1));
    matched += 1;
    depth += 1;
    start = at + 1;
  }
  const hasChildren = start < nodes.depth.length && nodes.depth[start]! >= depth;
  if (!isOfAnotherPath && hasChildren) below(flame, nodes, start, graph.zoomed, 1, graph);
  if (flame.callers !== null) {
    below(flame, flame.callers, first, whole, -1, graph);
  }
  return graph;
}

/** The cell at a point, if there is one. */
export function cellAt(graph: Graph, x: number, row: number): Cell | null {
  return graph.cells.find((cell) => cell.row === row && x >= cell.x && x < cell.x + cell.width) ?? null;
}

/** The cell that an arrow leads to. */
export function neighbour(graph: Graph, from: Cell, arrow: "in" | "out" | "left" | "right"): Cell | null {
  if (arrow === "out") return from.parent;
  if (arrow === "in") return graph.cells.find((cell) => cell.parent === from && cell.function !== -1) ?? graph.cells.find((cell) => cell.parent === from) ?? null;
  const row = graph.cells.filter((cell) => cell.row === from.row).sort((a, b) => a.x - b.x);
  return row[row.indexOf(from) + (arrow === "left" ? -1 : 1)] ?? null;
}
