// The terms of RSS in the order and with the names of the command line, joined to the parts of the bar.
import type { Estimate, Rss, SourceEntry } from "../types";

export interface Term {
  name: string;
  kind: string;
  of: Estimate;
}

const TERMS: [string, string, string[]][] = [
  ["live", "live", ["live"]],
  ["allocated before the attach, or not seen", "unseen", ["allocated_before_the_attach_or_not_seen"]],
  ["free in the allocator, or held by it", "free", ["free_in_allocator", "held_by_allocator"]],
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

/** Recording began, or ended, while the process ran: its profile does not know all that is live. */
export function isPartly(entry: SourceEntry): boolean {
  return entry.is_running && /^(attached|detached|ended)/.test(entry.state ?? "");
}

/** Parts that sum to RSS; *other* is the remainder. `knowsAll`: what is live. */
export function terms(rss: Rss, knowsAll: boolean): Term[] {
  const isHeld = (rss.terms["free_in_allocator"]?.value ?? 0) === 0 && (rss.terms["held_by_allocator"]?.value ?? 0) > 0;
  const held = `held by ${rss.allocator}${knowsAll ? "" : ", live or free"}`;
  const nameOf = (name: string, kind: string) => (kind === "free" ? (isHeld ? held : `free in ${rss.allocator}`) : name);
  const known = TERMS.map(([name, kind, of]) => ({ name: nameOf(name, kind), kind, of: sum(of.map((term) => rss.terms[term])) }));
  const used = new Set(TERMS.flatMap(([, , of]) => of));
  const rest = Object.entries(rss.terms).filter(([name]) => !used.has(name)).map(([, of]) => of);
  return [...known, { name: "other", kind: "other", of: sum(rest) }].filter((term) => term.of.value !== 0 || term.kind === "live");
}

/** Bytes by kind. */
export type Parts = Partial<Record<string, number>>;

/** The kinds of a picture over time, in the order in which they are stacked, and what each is called. */
export const KINDS: [string, string][] = [...TERMS.map(([name, kind]): [string, string] => [kind, name]), ["other", "other"], ["rest", "the rest, not told apart by ramson record"]];

/** Sums the terms of a moment by kind. */
export function partsOf(terms: Record<string, number>): Parts {
  const parts: Parts = {};
  for (const [name, bytes] of Object.entries(terms)) {
    const kind = TERMS.find(([, , of]) => of.includes(name))?.[1] ?? "other";
    parts[kind] = (parts[kind] ?? 0) + bytes;
  }
  return parts;
}
