import { colour, FONT, type Painted } from "../../parts/canvas";
import type { Flame } from "../../types";
import { amount, share, splitName } from "../../units";
import { inkOn, type Colours } from "./colours";
import { ROW, type Cell, type Graph } from "./layout";


export interface Picture {
  graph: Graph;
  flame: Flame;
  name: string;
  isBottom: boolean;
  isDark: boolean;
  colours: Colours;
  isMatch: ((place: number) => boolean) | null;
}

export function top(graph: Graph, row: number, isBottom: boolean): number {
  return (isBottom ? graph.rows[1] - row : row - graph.rows[0]) * ROW;
}

export function paint({ context }: Painted, picture: Picture): void {
  const { graph, isBottom } = picture;
  const hatching = hatch(context, picture.isDark);
  const noise = colour("noise");
  context.textBaseline = "middle";
  for (const cell of graph.cells) {
    const y = top(graph, cell.row, isBottom);
    const width = Math.max(LEAST, cell.width - 1);
    const isMatch = picture.isMatch === null || (cell.function >= 0 && picture.isMatch(cell.function));
    context.globalAlpha = cell.isAbove ? 0.55 : isMatch ? 1 : 0.35;
    const fill = cell.function === -2 ? noise : cell.function === -1 ? null : picture.colours.of(cell);
    context.fillStyle = fill ?? hatching;
    context.fillRect(cell.x, y, width, ROW - 1);
    if (cell.width >= 30) label(context, cell, y, picture, inkOn(fill ?? noise));
  }
  context.globalAlpha = 1;
}

const LEAST = 1;

function hatch(context: CanvasRenderingContext2D, isDark: boolean): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const on = tile.getContext("2d");
  if (on === null) return colour("noise");
  on.fillStyle = colour("noise");
  on.fillRect(0, 0, 6, 6);
  on.strokeStyle = isDark ? "#5f6a78" : "#a9b0bb";
  on.beginPath();
  on.moveTo(-1, 7);
  on.lineTo(7, -1);
  on.stroke();
  return context.createPattern(tile, "repeat") ?? colour("noise");
}

export function nameOf(cell: Cell, { flame, name }: { flame: Flame; name: string }): string {
  if (cell.function === -2) return flame.around === null ? name : (flame.functions[flame.nodes.function[0] ?? -1]?.short ?? name);
  if (cell.function >= 0) return flame.functions[cell.function]!.short;
  return `(${cell.merged} frame${cell.merged === 1 ? "" : "s"}: ${amount(cell.cum, flame.unit)})`;
}

function label(context: CanvasRenderingContext2D, cell: Cell, y: number, picture: Picture, ink: string): void {
  const { flame, colours } = picture;
  const room = cell.width - 11;
  const middle = y + (ROW - 1) / 2 + 0.5;
  const isOwn = cell.function >= 0 && flame.functions[cell.function]!.is_own;
  context.fillStyle = ink;
  context.font = `${cell.function === -2 ? "600 " : ""}12px ${FONT}`;
  const full = nameOf(cell, picture);
  const total = Math.abs(flame.total.value.value ?? 0);
  const figures = colours.figures?.(cell) ?? `${amount(cell.cum, flame.unit)}  ${share(Math.abs(cell.cum), total)}`;
  const figuresWidth = context.measureText(figures).width;
  const text = fit(context, full, room);
  if (text === "") return;
  context.fillText(text, cell.x + 5, middle);
  const used = context.measureText(text).width;
  if (text === full && used + figuresWidth + 34 < room) {
    context.globalAlpha *= isOwn || cell.function === -2 ? 0.9 : 0.85;
    context.fillText(figures, cell.x + cell.width - figuresWidth - 7, middle);
    context.globalAlpha = cell.isAbove ? 0.55 : 1;
  }
}

/** Namespaces go first, then the end. */
function fit(context: CanvasRenderingContext2D, name: string, room: number): string {
  let text = name;
  while (context.measureText(text).width > room) {
    const [space, own] = splitName(text);
    const shorter = space === "" ? "" : text.slice(text.indexOf("::") + 2);
    if (shorter === "" || shorter.length >= text.length) {
      text = own;
      break;
    }
    text = shorter;
  }
  if (context.measureText(text).width <= room) return text;
  let length = Math.max(0, Math.floor((text.length * room) / context.measureText(text).width));
  while (length > 0 && context.measureText(`${text.slice(0, length)}…`).width > room) length -= 1;
  return length < 2 ? "" : `${text.slice(0, length)}…`;
}
