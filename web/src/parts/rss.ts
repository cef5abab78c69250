// The terms of RSS in the order and with the names of the command line, joined to the parts of the bar.
import type { Point } from "../state/series";
import type { Explained, Estimate, Rss } from "../types";

export interface Term {
  name: string;
  kind: string;
  of: Estimate;
}

/** Name of each part of RSS, its kind, and the terms that it is the sum of. */
const TERMS: [string, string, string[]][] = [
  ["live", "live", ["live"]],
  ["allocated before the attach or not seen", "unseen", ["allocated_before_the_attach_or_not_seen"]],
  ["free in the allocator", "free", ["free_in_allocator"]],
  ["freed lazily", "lazy", ["freed_lazily"]],
  ["held by the allocator", "held", ["held_by_allocator"]],
  ["Go heap", "go", ["go_heap"]],
  ["free in Go", "gofree", ["free_in_go"]],
  ["inherited from parent", "inherited", ["inherited_from_parent"]],
  ["mmap", "extents", ["mmap"]],
  ["code, data, files", "files", ["code_and_data", "files"]],
  ["shared memory", "shared", ["shared_memory"]],
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

/** `the fork`. */
export function beforeOf(rss: Rss): string {
  return rss.before === "either" ? "the attach or the fork" : `the ${rss.before ?? "attach"}`;
}

/** Names a part. If the profile does not know all live memory, the memory that an allocator holds is not known to be free. */
function nameOf(kind: string, name: string, rss: Rss): string {
  if (kind === "unseen") return rss.before === "fork" ? "inherited from parent or not seen" : `allocated before ${beforeOf(rss)} or not seen`;
  if (kind === "free") return `free in ${rss.allocator}`;
  if (kind === "held") return `held by ${rss.allocator}${rss.may_hold_live ? ": allocated before the attach, or free" : ""}`;
  return kind === "other" && !rss.live_is_counted && rss.allocator !== "malloc" ? `other anonymous or ${rss.allocator}’s` : name;
}

/** Parts that sum to RSS; *other* is the remainder. */
export function terms(rss: Rss): Term[] {
  const used = new Set(TERMS.flatMap(([, , of]) => of));
  const rest = Object.keys(rss.terms).filter((name) => !used.has(name));
  const all = [...TERMS, ["other", "other", rest] as (typeof TERMS)[number]];
  return all.map(([name, kind, of]) => ({ name: nameOf(kind, name, rss), kind, of: sum(of.map((term) => rss.terms[term])) })).filter((term) => term.of.value !== 0);
}

/** Bytes by kind. */
export type Parts = Partial<Record<string, number>>;

/** The kinds of a picture over time, in the order in which they are stacked, and what each is called. */
export const KINDS: [string, string][] = [...TERMS.map(([name, kind]): [string, string] => [kind, name]), ["other", "other"]];

/** Without their intervals. */
function termsOf(parts: Parts): Term[] {
  return KINDS.map(([kind, name]) => ({ name, kind, of: { value: parts[kind] ?? 0, half_width_95: 0 } })).filter((term) => term.of.value !== 0);
}

/** RSS as a page shows it: the current one, or one from a history. */
export interface Whole {
  bytes: number;
  terms: Term[];
  /** Time of a past moment, in ns; null: now. */
  unix_ns: number | null;
}

/** `atNs` is the moment of the history that is shown; without it and without `rss`, the last one that has parts. */
export function wholeOf(rss: Rss | null, points: Point[], atNs: number | null): Whole | null {
  if (rss !== null) return { bytes: rss.bytes, terms: terms(rss), unix_ns: null };
  const last = points.filter((point) => point.parts !== null && (atNs === null || point.unix_ns <= atNs)).at(-1);
  return last?.parts == null ? null : { bytes: last.rss ?? 0, terms: termsOf(last.parts), unix_ns: last.unix_ns };
}

/** Sums the terms of a moment by kind. */
export function partsOf(terms: Record<string, number>): Parts {
  const parts: Parts = {};
  for (const [name, bytes] of Object.entries(terms)) {
    const kind = TERMS.find(([, , of]) => of.includes(name))?.[1] ?? "other";
    parts[kind] = (parts[kind] ?? 0) + bytes;
  }
  return parts;
}

/** Bytes that a trim of glibc’s arenas returns. */
export function releasableOf({ arenas, half_widths_95: half }: NonNullable<Explained["statistics"]>): Estimate {
  return { value: arenas.reduce((sum, arena) => sum + arena.releasable_bytes, 0), half_width_95: half["releasable"] ?? 0 };
}
