// Data that change by themselves: the list of sources, and the current process's RSS and live bytes, at most once a second.
import { effect, signal } from "@preact/signals";
import type { Estimate, SourceEntry, Sources } from "../types";
import { ask, Failed, isLockedOut, open } from "./api";
import { isOver, isPaused, tick } from "./documents";
import { saved } from "./offline";
import { place } from "./route";

export interface Moment {
  unix_ns: number;
  rss: number | null;
  live: number | null;
  half: number;
  /** The terms of RSS, where they were read. */
  terms: Record<string, number> | null;
}

/** As the server sends it. */
interface Sent {
  unix_ns: number | null;
  rss: number | null;
  live: Estimate | null;
  terms: Record<string, number> | null;
  ended: string | null;
}

function momentOf(sent: Omit<Sent, "ended">): Moment | null {
  if (sent.unix_ns === null) return null;
  return { unix_ns: sent.unix_ns, rss: sent.rss, live: sent.live?.value ?? null, half: sent.live?.half_width_95 ?? 0, terms: sent.terms };
}

function ofEntry(entry: SourceEntry): Moment {
  return { unix_ns: Date.now() * 1e6, rss: entry.rss, live: entry.live?.value ?? null, half: entry.live?.half_width_95 ?? 0, terms: null };
}

const MOST_MOMENTS = 3600;
const POLL_MS = 2000;
const REFRESH_MS = 5000;

export const sources = signal<Sources | null>(null);
export const failure = signal<Failed | null>(null);
/** Moments of the current source since the page was opened, oldest first. */
export const moments = signal<Moment[]>([]);
export const lastMoment = signal<Moment | null>(null);
/** It ran when the page began to look at it. */
export const sawRunning = signal(false);

/** The process that was shown last while it ran; what became of it, as far as the server said. */
let shown: SourceEntry | null = null;
let fate: string | null = null;

function served(): SourceEntry | null {
  const all = sources.value?.sources ?? [];
  const wanted = place.value.params["id"];
  if (wanted !== undefined) return all.find((entry) => entry.id === wanted) ?? null;
  return all.length === 1 ? all[0]! : null;
}

/** The process that was shown, where its profile ended with it: as one that was attached to. */
function over(): SourceEntry | null {
  const wanted = place.value.params["id"];
  const isMeant = wanted === undefined ? sources.value?.sources.length === 0 : wanted === shown?.id;
  return shown !== null && isMeant ? { ...shown, is_running: false, state: fate } : null;
}

/** The source that the page shows. */
export function current(): SourceEntry | null {
  return served() ?? over();
}

/** Names of all that was ever served, by their IDs: what is gone is still called by its name. */
export const names = new Map<string, string>();

export async function refreshSources(): Promise<void> {
  try {
    sources.value = await ask<Sources>("sources");
    for (const entry of sources.value.sources) names.set(entry.id, entry.name);
    const now = served();
    // Once more, as it ended.
    if (now !== null && !now.is_running && now.id === shown?.id) tick.value += 1;
    if (now !== null) shown = now.is_running && now.pid !== null ? now : null;
    isOver.value = now === null && over() !== null;
    failure.value = null;
  } catch (error) {
    failure.value = error instanceof Failed ? error : new Failed(String(error), 0);
  }
}

function note(moment: Moment): void {
  lastMoment.value = moment;
  moments.value = [...moments.value, moment].slice(-MOST_MOMENTS);
}

async function stream(id: string, signalOf: AbortSignal): Promise<boolean> {
  const reply = await open(`/api/v1/p/${id}/events`, signalOf);
  const kind = reply.headers.get("Content-Type") ?? "";
  if (!reply.ok || !kind.startsWith("text/event-stream") || reply.body === null) {
    await reply.body?.cancel();
    return false;
  }
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return true;
    rest += value;
    const events = rest.split("\n\n");
    rest = events.pop() ?? "";
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data:"));
      if (data.length === 0) continue;
      const sent = JSON.parse(data.map((line) => line.slice(5)).join("\n")) as Sent;
      const moment = momentOf(sent);
      if (moment !== null && !isPaused.value) note(moment);
      if (sent.ended !== null) {
        fate = sent.ended;
        await refreshSources();
        return true;
      }
    }
  }
}

/** Takes the moments that the server has seen since it began. */
async function takeSeen(id: string, signalOf: AbortSignal): Promise<void> {
  try {
    const { moments: seen } = await ask<{ moments: Sent[] }>(`p/${id}/moments?rows=1000`, signalOf);
    const all = seen.map(momentOf).filter((moment): moment is Moment => moment !== null);
    if (!signalOf.aborted) moments.value = [...all, ...moments.value.filter((moment) => moment.unix_ns > (all.at(-1)?.unix_ns ?? 0))];
  } catch {
    // The page then begins with what it sees itself.
  }
}

async function follow(id: string, signalOf: AbortSignal): Promise<void> {
  moments.value = [];
  lastMoment.value = null;
  const first = current();
  sawRunning.value = first?.is_running ?? false;
  fate = null;
  if (first?.is_running) note(ofEntry(first));
  if (first !== null && first.pid !== null) await takeSeen(id, signalOf);
  // Several processes together have no stream.
  let hasStream = first?.pid !== null;
  while (!signalOf.aborted) {
    try {
      if (hasStream && current()?.is_running && !isLockedOut.value) hasStream = await stream(id, signalOf);
    } catch {
      // The next turn polls, and says what is wrong.
    }
    if (signalOf.aborted) return;
    await new Promise((wake) => setTimeout(wake, POLL_MS));
    if (signalOf.aborted || isPaused.value) continue;
    await refreshSources();
    const entry = current();
    if (entry !== null && entry.is_running && !hasStream) {
      note(ofEntry(entry));
    }
  }
}

export function startLive(): void {
  void refreshSources();
  if (saved !== null) return;
  let stop: AbortController | null = null;
  let followed: string | null = null;
  effect(() => {
    const id = current()?.id ?? null;
    if (id === followed) return;
    followed = id;
    stop?.abort();
    stop = new AbortController();
    const { signal: signalOf } = stop;
    // Outside of the effect, which must not depend on what following reads.
    if (id !== null) queueMicrotask(() => void follow(id, signalOf));
  });
  setInterval(() => {
    if (isPaused.value || document.hidden) return;
    // Its state changes while its moments are followed, too.
    void refreshSources();
    if (current()?.is_running) tick.value += 1;
  }, REFRESH_MS);
}
