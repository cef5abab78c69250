// Which leak would not show, where none was found.

import type { Leaks } from "../types";
import { bytes, duration } from "../units";

export function limitOf({ answer: { cannot_tell, is_running, limit } }: Leaks): string {
  if (cannot_tell === "samples-lost") return "Samples were lost, and a leak may be among these.";
  if (cannot_tell === "live-not-known") return "Which blocks are live is not known.";
  if (limit === null) return "The recording is too short to tell.";
  return `A leak below ${bytes(limit.bytes_per_hour)}/h, or one that began later, may not show${is_running ? " yet" : ""} (${duration(limit.observed_ns)}, interval ${bytes(limit.interval_bytes)}).`;
}
