// The terms of RSS in the order and with the names of the command line, joined to the parts of the bar.
import type { Estimate, Rss } from "../types";

export interface Term {
  name: string;
  kind: string;
  of: Estimate;
}

const TERMS: [string, string, string[]][] = [
  ["live", "live", ["live"]],
  ["free in allocator", "free", ["free_in_allocator", "held_by_allocator"]],
  ["mmap", "extents", ["mmap"]],
  ["code, data, files", "files", ["code_and_data", "files"]],
  ["stacks", "stacks", ["stacks"]],
  ["ramson", "ramson", ["ramson"]],
];

function sum(all: (Estimate | undefined)[]): Estimate {
  const there = all.filter((one): one is Estimate => one !== undefined);
  return {
    value: there.reduce((total, one) => total + (one.value ?? 0), 0),
    half_width_95: there.reduce((total, one) => total + (one.half_width_95 ?? 0), 0),
  };
}

/** Parts that sum to RSS; *other* is the remainder. */
export function terms(rss: Rss): Term[] {
  const known = TERMS.map(([name, kind, of]) => ({ name, kind, of: sum(of.map((term) => rss.terms[term])) }));
  const used = new Set(TERMS.flatMap(([, , of]) => of));
  const rest = Object.entries(rss.terms).filter(([name]) => !used.has(name)).map(([, of]) => of);
  return [...known, { name: "other", kind: "other", of: sum(rest) }].filter((term) => term.of.value !== 0 || term.kind === "live");
}
