// How numbers are written: as on the command line, so that figures can be compared.
import type { Estimate, Unit } from "./types";

const NBSP = "\u00a0";
const NONE = "–";
const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Three significant digits, with a real minus sign. */
function three(value: number): string {
  const size = Math.abs(value);
  const text = value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
  return (text === "-0.00" ? "0.00" : text).replace("-", "−");
}

/** The power of 1,024 whose unit a number of bytes has. */
function powerOf(value: number): number {
  let power = 0;
  while (Math.round(Math.abs(value)) >= 1024 ** (power + 1) && power + 1 < BINARY.length) power += 1;
  return power;
}

export function bytes(value: number | null | undefined): string {
  if (value == null || Number.isNaN(value)) return NONE;
  const power = powerOf(value);
  const number = power === 0 ? (Math.round(value) + 0).toString().replace("-", "−") : three(value / 1024 ** power);
  return `${number}${NBSP}${BINARY[power]}`;
}

/** All digits, with commas. */
export function count(value: number | null | undefined): string {
  if (value == null || Number.isNaN(value)) return NONE;
  return (Math.round(value) + 0).toLocaleString("en-US").replace("-", "−");
}

export function amount(value: number | null | undefined, unit: Unit): string {
  return unit === "bytes" ? bytes(value) : count(value);
}

/** An amount with as many digits as its ± leaves: two beside more than ±10%. */
export function estimated(of: Estimate | null | undefined, unit: Unit = "bytes"): string {
  const value = of?.value ?? null;
  if (!of || value === null || of.at_least || !((of.half_width_95 ?? 0) > 0.1 * Math.abs(value))) return amount(value, unit);
  const power = unit === "bytes" ? powerOf(value) : 0;
  const scaled = value / 1024 ** power;
  const size = Math.abs(scaled);
  const place = size < 10 && power === 0 ? 1 : 10 ** (Math.floor(Math.log10(size)) - 1);
  const rough = Math.round(scaled / place) * place;
  if (power === 0) return amount(rough, unit);
  return `${rough.toFixed(Math.abs(rough) < 9.95 ? 1 : 0).replace("-", "−")}${NBSP}${BINARY[power]}`;
}

export function share(part: number | null | undefined, whole: number | null | undefined): string {
  if (part == null || whole == null) return NONE;
  if (part === 0) return `0%`;
  const percent = (100 * part) / whole;
  if (!Number.isFinite(percent)) return NONE;
  if (Math.abs(percent) < 0.01) return `<0.01%`;
  return `${three(percent)}%`;
}

/** The 95% interval in percent of the value; empty where it is exact, ≥ where records were lost. */
export function relative(of: Estimate): string {
  if (of.at_least) return "≥";
  if (of.half_width_95 === null || of.value === null) return "±" + NBSP + "?";
  if (of.half_width_95 === 0) return "";
  const percent = (100 * of.half_width_95) / Math.abs(of.value);
  if (!Number.isFinite(percent) || percent >= 999.5) return `±>999%`;
  if (percent >= 9.95) return `±${percent.toFixed(0)}%`;
  if (percent < 0.05) return `±<0.1%`;
  return `±${percent.toFixed(1)}%`;
}

/** The 95% interval in the value's own unit: of differences, rates and remainders. */
export function absolute(of: Estimate, unit: Unit = "bytes"): string {
  if (of.at_least || of.half_width_95 === null) return "±" + NBSP + "?";
  return of.half_width_95 === 0 ? "" : `±${amount(of.half_width_95, unit)}`;
}

/** Whether 0 is inside the interval: nothing to be concluded from it. */
export function isNoise(of: Estimate): boolean {
  if (of.value === null) return true;
  return of.half_width_95 !== null && Math.abs(of.value) <= of.half_width_95;
}

export function signed(of: Estimate, unit: Unit = "bytes"): string {
  const value = of.value ?? 0;
  const text = amount(value, unit);
  return value > 0 ? `+${text}` : text;
}

/** With the precision that its size deserves. */
export function duration(ns: number): string {
  const seconds = ns / 1e9;
  if (seconds < 0.0995) return `${(seconds * 1e3).toFixed(0)}${NBSP}ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)}${NBSP}s`;
  if (seconds < 119.5) return `${seconds.toFixed(0)}${NBSP}s`;
  if (seconds < 7170) return `${(seconds / 60).toFixed(0)}${NBSP}min`;
  if (seconds < 172_620) return `${(seconds / 3600).toFixed(1)}${NBSP}h`;
  return `${(seconds / 86_400).toFixed(1)}${NBSP}d`;
}

const two = (value: number) => value.toString().padStart(2, "0");

export function clock(unixNs: number, withSeconds = true): string {
  const time = new Date(unixNs / 1e6);
  const text = `${two(time.getHours())}:${two(time.getMinutes())}`;
  return withSeconds ? `${text}:${two(time.getSeconds())}` : text;
}

/** A time of day with its zone: `21:24:05 UTC+1`. */
export function timeOfDay(unixNs: number): string {
  const east = -new Date(unixNs / 1e6).getTimezoneOffset();
  const [hours, minutes] = [Math.floor(Math.abs(east) / 60), Math.abs(east) % 60];
  const ahead = `${east < 0 ? "−" : "+"}${hours}${minutes === 0 ? "" : `:${two(minutes)}`}`;
  return `${clock(unixNs)} UTC${east === 0 ? "" : ahead}`;
}

export function day(unixNs: number): string {
  const time = new Date(unixNs / 1e6);
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
}

export function base(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** The namespaces of a function, and its own name. */
export function splitName(name: string): [string, string] {
  const short = shortName(name);
  let depth = 0;
  for (let at = short.length - 1; at > 0; at -= 1) {
    const letter = short[at];
    if (letter === ">" || letter === ")") depth += 1;
    if (letter === "<" || letter === "(") depth -= 1;
    if (depth === 0 && letter === ":" && short[at - 1] === ":") return [short.slice(0, at + 1), short.slice(at + 1)];
  }
  return ["", short];
}

/** Without parameters, template arguments and return type, as far as that can be told. */
export function shortName(name: string): string {
  if (name.includes("operator") || name.includes("(anonymous") || /^[<({]/.test(name)) return name;
  const text = name.replace(/ const$/, "");
  let short = "";
  let depth = 0;
  let lastWord = 0;
  let isList = false;
  let before = " ";
  for (const letter of text) {
    const outer = depth;
    if (letter === "<" || letter === "(") depth += 1;
    else if ((letter === ">" && before !== "-") || letter === ")") depth = Math.max(0, depth - 1);
    else if (letter === " " && depth === 0) lastWord = short.length + 1;
    if (outer === 0 && depth === 1) {
      if (letter === "<" && short.endsWith("::") && !short.startsWith("py::")) {
        short = short.slice(0, -2);
        isList = true;
      } else isList = !/[. :]$/.test(short);
    }
    if (!isList || (outer === 0 && depth === 0)) short += letter;
    before = letter;
  }
  return isList && text.endsWith(")") ? short.slice(lastWord) : short;
}
