// Windows as they are typed: 01:00–02:00, @-2h..-1h, @mark:deploy.. In the address they are seconds before the last moment.
import { clock } from "../units";
import { windowOf } from "./timebar";

export interface Times {
  first: number;
  last: number;
  marks: { name: string; unix_ns: number }[];
}

const SECONDS: Record<string, number> = { ms: 0.001, s: 1, m: 60, min: 60, h: 3600, d: 86_400 };
const DAY_NS = 86_400e9;

/** In ns since 1970; `null`: it cannot be understood. */
function momentOf(text: string, { last, marks }: Times): number | null {
  if (text === "now") return last;
  const ago = /^-((?:\d+(?:\.\d+)?(?:ms|min|s|m|h|d))+)$/.exec(text)?.[1];
  if (ago !== undefined) {
    const parts = [...ago.matchAll(/([\d.]+)(ms|min|s|m|h|d)/g)];
    return last - parts.reduce((sum, [, number, unit]) => sum + Number(number) * SECONDS[unit!]!, 0) * 1e9;
  }
  if (text.startsWith("mark:")) return marks.filter((mark) => mark.name === text.slice(5)).at(-1)?.unix_ns ?? null;
  const time = /^(\d{1,2}):(\d{2})(?::(\d{2}))?$/.exec(text);
  if (time !== null) {
    const day = new Date(last / 1e6);
    const [hours, minutes, seconds] = time.slice(1).map((part) => Number(part ?? 0));
    const ns = day.setHours(hours!, minutes!, seconds!, 0) * 1e6;
    return ns > last ? ns - DAY_NS : ns;
  }
  const ms = /^\d{4}-/.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(ms) ? null : ms * 1e6;
}

/** As the address has it; `null`: it cannot be understood, or is not within what is shown. */
export function windowFrom(text: string, times: Times): string | null {
  const clocks = /^([\d:]+)\s*[-–—]\s*([\d:]+)$/.exec(text.trim());
  const [from, to, more] = clocks === null ? text.trim().replace(/^@/, "").split("..") : clocks.slice(1);
  if (from === undefined || to === undefined || more !== undefined) return null;
  const start = from === "" ? times.first : momentOf(from.trim(), times);
  const end = to === "" ? times.last : momentOf(to.trim(), times);
  if (start === null || end === null || start >= end || end <= times.first || start >= times.last) return null;
  const before = (ns: number) => Math.round((times.last - Math.min(times.last, Math.max(times.first, ns))) / 1e9);
  return `${before(start)}-${before(end)}`;
}

/** From a window of the address. */
export function windowText(window: string, { last }: Times): string {
  const found = windowOf(window);
  return found === null ? "" : found.map((seconds) => clock(last - seconds * 1e9)).join("–");
}
