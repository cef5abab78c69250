// Documents as the screens use them: asked for once, kept for a while, and asked for again while the process runs.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, Failed } from "./api";
import { saved } from "./offline";

export interface Loaded<T> {
  value: T | null;
  failed: Failed | null;
  /** The value is of another path, and this one's is on its way. */
  isStale: boolean;
}

/** Goes up when running processes are to be looked at again. */
export const tick = signal(0);
export const isPaused = signal(false);
/** The process has ended and its profile with it: what is there stays, and no more can be had. */
export const isOver = signal(false);

const MOST_KEPT = 40;
const kept = new Map<string, { value: unknown; tick: number }>();
const underway = new Map<string, Promise<unknown>>();

export function forget(): void {
  kept.clear();
}

function fetchOnce<T>(path: string): Promise<T> {
  const known = underway.get(path);
  if (known) return known as Promise<T>;
  const asked = ask<T>(path).finally(() => underway.delete(path));
  underway.set(path, asked);
  return asked;
}

async function load<T>(path: string, now: number): Promise<T> {
  const value = await fetchOnce<T>(path);
  kept.delete(path);
  kept.set(path, { value, tick: now });
  for (const oldest of kept.keys()) {
    if (kept.size <= MOST_KEPT) break;
    kept.delete(oldest);
  }
  return value;
}

export function prefetch(path: string): void {
  if (saved === null && !kept.has(path)) load(path, tick.value).catch(() => undefined);
}

/** `null`: nothing is asked for. While another path's value is on its way, the last one of `group` stays. */
export function useDocument<T>(path: string | null, group = path): Loaded<T> {
  const now = tick.value;
  const last = useRef<{ group: string | null; path: string | null; value: T | null }>({ group: null, path: null, value: null });
  const [failed, setFailed] = useState<{ path: string; failed: Failed } | null>(null);
  const [, redraw] = useState(0);
  const known = path === null ? undefined : kept.get(path);
  if (known !== undefined) last.current = { group, path, value: known.value as T };
  else if (last.current.group !== group) last.current = { group, path: null, value: null };
  useEffect(() => {
    if (path === null || (known !== undefined && known.tick === now)) return;
    let isWanted = true;
    load<T>(path, now)
      .then(() => {
        if (!isWanted) return;
        setFailed(null);
        redraw((count) => count + 1);
      })
      .catch((error: unknown) => {
        if (!isWanted) return;
        const reason = error instanceof Failed ? error : new Failed(String(error), 0);
        setFailed({ path, failed: reason });
      });
    return () => {
      isWanted = false;
    };
  }, [path, now]);
  const isFailed = failed !== null && failed.path === path;
  return {
    value: last.current.value,
    failed: isFailed && !(isOver.value && last.current.value !== null) ? failed.failed : null,
    isStale: last.current.path !== path,
  };
}
