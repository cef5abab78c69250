// Colours of the cells of a graph, and the meanings of the colours.
import type { Flame } from "../../types";
import { amount, bytes, duration, signed } from "../../units";
import type { Cell } from "./layout";

const LIGHT = ["#a9c9f8", "#f6d08a", "#96d9cd", "#d6bdf0", "#f4bdd2", "#bfe4f4", "#dcdfe5", "#dfdc92"];
const DARK = ["#2d5190", "#7a5a17", "#1f655b", "#5b4483", "#7a3c57", "#24607a", "#3a434f", "#5c5a1f"];
/** Young to old, in the order of lightness: it is read without colour, too. */
const AGES = ["#f7e06e", "#d3c07a", "#a99f78", "#7d7f78", "#565f6c", "#34446b", "#122d5c"];
/** Limits between ages, in s; the last six that the oldest frame has passed are shown. */
const LIMITS = [1, 5, 15, 30, 60, 120, 300, 900, 1800, 2700, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 345_600, 604_800, 1_209_600, 2_592_000];
const CHANGES = { light: ["#dcdfe5", "#ef9a45", "#6ea3f2"], dark: ["#3a434f", "#c9731a", "#3f7ae0"] } as const;

export type Colouring = "library" | "own" | "age" | "growth" | "change";

export interface Legend {
  name: string;
  isOwn: boolean;
  colour: string;
}

export interface Colours {
  /** `null`: hatched, as what it would say may be chance. */
  of: (cell: Cell) => string | null;
  legend: Legend[];
  /** Meaning of hatching. */
  hatched: string;
  /** Text at the right end of a cell instead of its bytes and share. */
  figures: ((cell: Cell) => string) | null;
}

export function coloursOf(flame: Flame, cells: Cell[], by: Colouring, isDark: boolean): Colours {
  switch (by) {
    case "library":
    case "own":
      return libraries(flame, by, isDark);
    case "age":
      return ages(cells, isDark);
    default:
      return changes(flame, cells, by, isDark);
  }
}

/** 0 inside the interval, or not known. */
export function isChance(cell: Cell): boolean {
  return cell.tint === null || (cell.tintHalf !== null && cell.tint !== 0 && Math.abs(cell.tint) <= cell.tintHalf);
}

export function changeOf(cell: Cell, flame: Flame): string {
  if (cell.tint === null) return "–";
  const of = { value: cell.tint, half_width_95: cell.tintHalf };
  const unit = flame.tint?.by === "growth" ? "bytes" : flame.unit;
  const arrow = isChance(cell) || cell.tint === 0 ? "" : cell.tint > 0 ? "▲ " : "▼ ";
  return `${arrow}${signed(of, unit)}`;
}

const greyOf = (isDark: boolean) => (isDark ? DARK : LIGHT)[6]!;

/** A colour for each library, the ones with most cells first; own code is always blue. */
function libraries(flame: Flame, by: "library" | "own", isDark: boolean): Colours {
  const colours = isDark ? DARK : LIGHT;
  const grey = greyOf(isDark);
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
  const of = (cell: Cell) => {
    const one = flame.functions[cell.function]!;
    if (cell.half !== null && cell.half >= Math.abs(cell.cum)) return null;
    if (one.is_own) return colours[0]!;
    return one.library === null ? grey : (ofLibrary.get(one.library) ?? grey);
  };
  const own = flame.functions.some((one) => one.is_own) ? [{ name: "own code", isOwn: true, colour: colours[0]! }] : [];
  const named = order.slice(0, 8).map((library) => ({ name: flame.libraries[library]!, isOwn: false, colour: ofLibrary.get(library)! }));
  const legend = by === "own" ? [...own, { name: "libraries", isOwn: false, colour: grey }] : [...own, ...named];
  return { of, legend, hatched: "merged, or ± larger than the value", figures: null };
}

function ages(cells: Cell[], isDark: boolean): Colours {
  const known = cells.filter((cell) => cell.function >= 0 && cell.tint !== null).map((cell) => cell.tint!);
  const oldest = Math.max(0, ...known);
  const passed = LIMITS.filter((seconds) => seconds * 1e9 <= oldest).length;
  const limits = LIMITS.slice(Math.max(0, passed - 6), Math.max(6, passed));
  const of = (cell: Cell) => {
    if (cell.tint === null) return greyOf(isDark);
    if (cell.half !== null && cell.half >= Math.abs(cell.cum)) return null;
    const step = limits.findIndex((seconds) => cell.tint! < seconds * 1e9);
    return AGES[step < 0 ? limits.length : step]!;
  };
  const names = [...limits.map((seconds) => `<${duration(seconds * 1e9)}`), "older"];
  const legend = names.map((name, step) => ({ name: step === 0 ? `mean age ${name}` : name, isOwn: false, colour: AGES[step]! }));
  return { of, legend, hatched: "merged, or ± larger than the value", figures: null };
}

function changes(flame: Flame, cells: Cell[], by: "growth" | "change", isDark: boolean): Colours {
  const [grey, more, less] = CHANGES[isDark ? "dark" : "light"];
  const sure = cells.filter((cell) => cell.function >= 0 && !isChance(cell));
  const most = Math.max(1, ...sure.map((cell) => Math.abs(cell.tint!)));
  const of = (cell: Cell) => {
    if (cell.tint === null) return grey;
    if (isChance(cell)) return null;
    return mix(grey, cell.tint > 0 ? more : less, Math.sqrt(Math.abs(cell.tint) / most));
  };
  const name = (text: string, colour: string) => ({ name: text, isOwn: false, colour });
  const legend =
    by === "growth"
      ? [name("no leak found", grey), name(`▲ grows, up to ${bytes(most)} an hour`, more)]
      : [name("▼ less", less), name("no change", grey), name(`▲ more, up to ${amount(most, flame.unit)}`, more)];
  return { of, legend, hatched: "merged, or not significant (± exceeds |Δ|)", figures: (cell) => (cell.tint === 0 || cell.tint === null ? "" : changeOf(cell, flame)) };
}

function parts(colour: string): number[] {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

function mix(from: string, to: string, share: number): string {
  const [a, b] = [parts(from), parts(to)];
  return `#${a.map((part, at) => Math.round(part + (b[at]! - part) * Math.min(1, share)).toString(16).padStart(2, "0")).join("")}`;
}

/** Dark or light ink, whichever has more contrast on a colour. */
export function inkOn(colour: string): string {
  const [r, g, b] = parts(colour).map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  const light = 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
  return 1.05 / (light + 0.05) > (light + 0.05) / 0.0567 ? "#ffffff" : "#10141a";
}
