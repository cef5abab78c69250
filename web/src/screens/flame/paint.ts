import { colour, FONT, type Painted } from "../../parts/canvas";
import type { Flame } from "../../types";
import { amount, share, splitName } from "../../units";
import { ROW, type Cell, type Graph } from "./layout";

const LIGHT = ["#a9c9f8", "#f6d08a", "#96d9cd", "#d6bdf0", "#f4bdd2", "#bfe4f4", "#dcdfe5", "#dfdc92"];
const DARK = ["#2d5190", "#7a5a17", "#1f655b", "#5b4483", "#7a3c57", "#24607a", "#3a434f", "#5c5a1f"];

export type Colouring = "library" | "own";

export interface Legend {
  name: string;
  isOwn: boolean;
  colour: string;
}

/** A colour for each library, the ones with most cells first; own code is always blue. */
export function palette(flame: Flame, by: Colouring, isDark: boolean): { of: (place: number) => string; legend: Legend[] } {
  const colours = isDark ? DARK : LIGHT;
  const grey = colours[6]!;
  const order: number[] = [];
  for (const one of flame.functions) {
    if (!one.is_own && one.library !== null && !order.includes(one.library)) order.push(one.library);
  }
  const others = colours.filter((_, index) => index !== 0 && index !== 6);
  const isSystem = (name: string) => /^(lib(c|m|pthread)[.-]|ld-)/.test(name);
  let next = 0;
  const ofLibrary = new Map(
    order.map((library) => [library, by === "own" || isSystem(flame.libraries[library]!) ? grey : others[next++ % others.length]!]),
  );
  const of = (place: number) => {
    const one = flame.functions[place]!;
    if (one.is_own) return colours[0]!;
    return one.library === null ? grey : (ofLibrary.get(one.library) ?? grey);
  };
  const own = flame.functions.some((one) => one.is_own) ? [{ name: "own code", isOwn: true, colour: colours[0]! }] : [];
  const libraries = order.slice(0, 8).map((library) => ({ name: flame.libraries[library]!, isOwn: false, colour: ofLibrary.get(library)! }));
  return { of, legend: by === "own" ? [...own, { name: "libraries", isOwn: false, colour: grey }] : [...own, ...libraries] };
}

export interface Picture {
  graph: Graph;
  flame: Flame;
  name: string;
  isBottom: boolean;
  isDark: boolean;
  colourOf: (place: number) => string;
  isMatch: ((place: number) => boolean) | null;
}

export function top(graph: Graph, row: number, isBottom: boolean): number {
  return (isBottom ? graph.rows[1] - row : row - graph.rows[0]) * ROW;
}

export function paint({ context }: Painted, picture: Picture): void {
  const { graph, isBottom } = picture;
  const hatching = hatch(context, picture.isDark);
  context.textBaseline = "middle";
  for (const cell of graph.cells) {
    const y = top(graph, cell.row, isBottom);
    const width = Math.max(LEAST, cell.width - 1);
    const isMatch = picture.isMatch === null || (cell.function >= 0 && picture.isMatch(cell.function));
    context.globalAlpha = cell.isAbove ? 0.55 : isMatch ? 1 : 0.35;
    const isNoise = cell.half !== null && cell.half >= Math.abs(cell.cum) && cell.function >= 0;
    context.fillStyle = cell.function === -1 || isNoise ? hatching : cell.function === -2 ? colour("noise") : picture.colourOf(cell.function);
    context.fillRect(cell.x, y, width, ROW - 1);
    if (cell.width >= 30) label(context, cell, y, picture);
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

function label(context: CanvasRenderingContext2D, cell: Cell, y: number, picture: Picture): void {
  const { flame, isDark } = picture;
  const room = cell.width - 11;
  const middle = y + (ROW - 1) / 2 + 0.5;
  const isOwn = cell.function >= 0 && flame.functions[cell.function]!.is_own;
  context.fillStyle = isDark ? "#ffffff" : "#10141a";
  context.font = `${cell.function === -2 ? "600 " : ""}12px ${FONT}`;
  const full = nameOf(cell, picture);
  const total = Math.abs(flame.total.value.value ?? 0);
  const figures = `${amount(cell.cum, flame.unit)}  ${share(Math.abs(cell.cum), total)}`;
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
