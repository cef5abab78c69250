// Which leak would show, where none was found.

import type { Leaks } from "../types";
import { bytes, duration } from "../units";

export function limitOf({ answer: { cannot_tell, is_running, limit } }: Leaks): string {
  if (cannot_tell === "samples-lost") return "Samples were lost, and a leak may be among these.";
  if (cannot_tell === "live-not-known") return "Which blocks are live is not known.";
  if (limit === null) return "The recording is too short to tell.";
  return `A leak of ${bytes(limit.bytes_per_hour)}/h over all ${duration(limit.observed_ns)} would show, a smaller or later one may not${is_running ? " yet" : ""} (interval ${bytes(limit.interval_bytes)}).`;
}
