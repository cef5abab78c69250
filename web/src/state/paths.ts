// The documents that the screens ask for.
import type { SourceEntry } from "../types";
import { param, type Screen } from "./route";

type Words = Record<string, string | number | undefined>;

function query(words: Words): string {
  const kept = Object.entries(words).filter(([, value]) => value !== undefined && value !== "");
  return new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
}

export function pathOf(entry: SourceEntry, document: string, words: Words = {}): string {
  const text = query(words);
  return `p/${entry.id}/${document}${text === "" ? "" : `?${text}`}`;
}

/** The moment that the page shows. */
export const moment = () => param("t") || undefined;
export const sample = () => param("si") || undefined;

/** The text that the server reads as an expression: what is none is taken literally. */
export function expression(text: string): string {
  try {
    new RegExp(text);
    return text;
  } catch {
    return literally(text);
  }
}

export function literally(text: string): string {
  return text.replace(/[\\.+*?()|[\]{}^$]/g, "\\$&");
}

/** First path that a screen asks for, so that it may be asked for before the click. */
export function entryPath(entry: SourceEntry, screen: Screen): string | null {
  const at = moment();
  switch (screen) {
    case "suspects":
      return entry.pid === null ? null : pathOf(entry, "leaks", { at });
    case "allocator":
      return entry.is_running && entry.pid !== null ? pathOf(entry, "explain") : null;
    case "table":
      return pathOf(entry, "report", { view: "functions", rows: 0, "count": sample(), at });
    case "timeline":
      return entry.pid === null ? null : pathOf(entry, "timeline");
    default:
      return null;
  }
}
