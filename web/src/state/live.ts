// What moves by itself: the list of sources, and the current process's RSS and live bytes, at most once a second.
import { effect, signal } from "@preact/signals";
import type { Estimate, SourceEntry, Sources } from "../types";
import { ask, Failed, isLockedOut, open } from "./api";
import { isPaused, tick } from "./documents";
import { saved } from "./offline";
import { place } from "./route";

export interface Moment {
  unix_ns: number;
  rss: number | null;
  live: number | null;
  half: number;
}

/** As the server sends it. */
interface Sent {
  unix_ns: number | null;
  rss: number | null;
  live: Estimate | null;
  ended: string | null;
}

function momentOf(sent: Pick<Sent, "unix_ns" | "rss" | "live">): Moment | null {
  if (sent.unix_ns === null) return null;
  return { unix_ns: sent.unix_ns, rss: sent.rss, live: sent.live?.value ?? null, half: sent.live?.half_width_95 ?? 0 };
}

function ofEntry(entry: SourceEntry): Moment {
  return { unix_ns: Date.now() * 1e6, rss: entry.rss, live: entry.live?.value ?? null, half: entry.live?.half_width_95 ?? 0 };
}

const MOST_MOMENTS = 3600;
const POLL_MS = 2000;
const REFRESH_MS = 5000;

export const sources = signal<Sources | null>(null);
export const failure = signal<Failed | null>(null);
/** What was seen of the current source since the page was opened, oldest first. */
export const moments = signal<Moment[]>([]);
export const lastMoment = signal<Moment | null>(null);
/** It ran when the page began to look at it. */
export const sawRunning = signal(false);

/** The source that the page shows. */
export function current(): SourceEntry | null {
  const all = sources.value?.sources ?? [];
  const wanted = place.value.params["id"];
  if (wanted !== undefined) return all.find((entry) => entry.id === wanted) ?? null;
  return all.length === 1 ? all[0]! : null;
}

export async function refreshSources(): Promise<void> {
  try {
    sources.value = await ask<Sources>("sources");
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
        await refreshSources();
        return true;
      }
    }
  }
}

/** What the server has seen since it began. */
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
  if (first?.is_running) note(ofEntry(first));
  if (first !== null && first.pid !== null) await takeSeen(id, signalOf);
  let hasStream = true;
  while (!signalOf.aborted) {
    try {
      if (hasStream && sawRunning.value && !isLockedOut.value) hasStream = await stream(id, signalOf);
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
    const entry = current();
    if (entry === null) void refreshSources();
    else if (entry.is_running) tick.value += 1;
  }, REFRESH_MS);
}
