// How a zoom moves: from what was seen to what is seen now, in a moment, unless the user wants no motion.
import type { Cell } from "./layout";
import type { Picture } from "./paint";

const LASTS_MS = 150;
const still = matchMedia("(prefers-reduced-motion: reduce)");

/** Pixels of a graph, from the first to behind the last, that fill the picture. */
type Window = readonly [number, number];

export interface Zoom {
  /** The picture that moves: the one with more in it, with its own names and colours. */
  picture: Picture;
  from: Window;
  to: Window;
  began: number;
}

/** `null`: one does not lead to the other. */
export function zoomBetween(before: Picture | null, after: Picture, width: number, now: number): Zoom | null {
  if (before === null || before.isBottom !== after.isBottom || still.matches) return null;
  const [short, long] = [before.graph.zoomed.path, after.graph.zoomed.path];
  if (short.length === long.length) return null;
  const isIn = short.length < long.length;
  const [picture, wanted] = isIn ? [before, long] : [after, short];
  const name = wanted.join(".");
  const cell = picture.graph.cells.find((one) => one.path.length === wanted.length && one.path.join(".") === name);
  if (cell === undefined) return null;
  const whole: Window = [0, width];
  const part: Window = [cell.x, cell.x + cell.width];
  return { picture, from: isIn ? whole : part, to: isIn ? part : whole, began: now };
}

export function isOver(zoom: Zoom, now: number): boolean {
  return now - zoom.began >= LASTS_MS;
}

/** Visible part of the moving picture now, in the rows of the picture that the zoom ends with. */
export function seen({ picture, from, to, began }: Zoom, end: Picture, width: number, now: number): Picture {
  const rest = 1 - Math.min(1, Math.max(0, (now - began) / LASTS_MS));
  const eased = 1 - rest * rest * rest;
  const [first, last] = [0, 1].map((edge) => from[edge]! + (to[edge]! - from[edge]!) * eased) as [number, number];
  const scale = width / (last - first);
  const cells: Cell[] = [];
  for (const cell of picture.graph.cells) {
    const x = Math.max(0, (cell.x - first) * scale);
    const right = Math.min(width, (cell.x + cell.width - first) * scale);
    if (right - x >= 0.5) cells.push({ ...cell, x, width: right - x });
  }
  return { ...picture, graph: { ...picture.graph, cells, rows: end.graph.rows } };
}
