// Keys. None works while a field has the focus, except Esc.
import { signal } from "@preact/signals";
import { switchTheme } from "./parts/canvas";
import { copy } from "./parts/notice";
import { isPaused } from "./state/documents";
import { current } from "./state/live";
import { savedOld } from "./state/offline";
import { momentsOf, wordOf } from "./screens/diff/read";
import { keptMoments, lastMomentNs } from "./state/series";
import { change, go, param, place, SCREENS } from "./state/route";

export const showsKeys = signal(false);
export const showsMenu = signal(false);

/** Keys of the screen that is shown; they come first. */
export const screenKeys = signal<Record<string, () => void>>({});

export const KEYS: [string, string][] = [
  ["/", "search"],
  ["Esc", "back: clears the search, zooms out, closes"],
  ["?", "these keys"],
  ["1 – 8", "screens"],
  ["← ↑ ↓ →", "move in the graph"],
  ["Enter", "zoom"],
  ["s", "callers and callees of the frame"],
  ["o", "root at the top or bottom"],
  ["c", "colour"],
  ["a", "live or allocated"],
  ["d", "what changed"],
  ["e", "stacks of the row"],
  ["[ ]", "previous moment, next moment"],
  ["y", "copy the command of this view"],
  ["t", "theme"],
  ["Space", "pause"],
];

const SAMPLE: Record<string, string> = {
  "": "alloc_space",
  inuse_space: "alloc_space",
  alloc_space: "",
  inuse_objects: "alloc_objects",
  alloc_objects: "inuse_objects",
};

const WORDS: Record<string, string> = { inuse_space: "live", inuse_objects: "live-objects", alloc_space: "allocated", alloc_objects: "allocations" };

/** The command line that shows the same. */
export function commandOf(): string {
  const source = current()?.source ?? "SRC";
  const focus = param("f");
  const moment = param("t");
  const of = /^[\w./:@-]+$/.test(source) ? source : `'${source.replaceAll("'", "'\\''")}'`;
  const at = moment === "" ? of : `${of}@${moment}`;
  const filters = (focus === "" ? "" : ` --focus '${focus.replaceAll("'", "'\\''")}'`) + (param("si") === "" ? "" : ` --count ${WORDS[param("si")] ?? param("si")}`);
  switch (place.value.screen) {
    case "flame":
      return `ramson report ${at} --view ${param("dir") === "callers" ? "callers" : "tree"}${filters}${param("lib", "own") === "own" ? "" : " --all-frames"}`;
    case "table":
      return `ramson report ${at} --view functions${filters}`;
    case "timeline":
      return `ramson timeline ${of}`;
    case "diff":
      return diffOf(of) + filters;
    case "suspects":
      return `ramson leaks ${at}`;
    case "allocator":
      return `ramson explain ${of}`;
    default:
      return `ramson report ${at}${filters}`;
  }
}

/** The command that compares the moments of Diff. */
function diffOf(of: string): string {
  if (savedOld !== null) return `ramson diff ${savedOld} ${of}`;
  const [moments, entry] = [momentsOf() ?? { old: 300, new: 0 }, current()];
  const at = (seconds: number) => (seconds === 0 || entry === null ? of : `${of}@${wordOf(seconds, entry, lastMomentNs.value)}`);
  return `ramson diff ${at(moments.old)} ${at(moments.new)}`;
}

/** To the moment of the history before or after the one that is shown; behind the last is now. */
function stepTo(way: 1 | -1): void {
  const kept = keptMoments.value;
  const shown = param("t") === "" ? Infinity : Date.parse(param("t"));
  const at = (ns: number) => Math.ceil(ns / 1e6);
  const next = way < 0 ? kept.filter((ns) => !(at(ns) >= shown)).at(-1) : kept.find((ns) => at(ns) > shown);
  if (next !== undefined) change({ t: new Date(at(next)).toISOString() });
  else if (way > 0 && param("t") !== "") change({ t: "" });
}

function leave(): void {
  if (showsKeys.value) showsKeys.value = false;
  else if (showsMenu.value) showsMenu.value = false;
  else if (param("f") !== "") change({ f: "" }, true);
  else if (param("n") !== "") change({ n: "" });
  else if (param("p") !== "") change({ p: "" });
}

function act(event: KeyboardEvent): boolean {
  const number = Number(event.key);
  if (number >= 1 && number <= 8) {
    go(SCREENS[number - 1]!);
    return true;
  }
  const own = screenKeys.value[event.key];
  if (own) {
    own();
    return true;
  }
  switch (event.key) {
    case "/":
      document.getElementById("search")?.focus();
      return true;
    case "?":
      showsKeys.value = !showsKeys.value;
      return true;
    case "t":
      switchTheme();
      return true;
    case "d":
      go("diff");
      return true;
    case "a":
      change({ si: SAMPLE[param("si")] ?? "" });
      return true;
    case "y":
      void copy(commandOf());
      return true;
    case "[":
    case "]":
      stepTo(event.key === "[" ? -1 : 1);
      return true;
    case " ":
      isPaused.value = !isPaused.value;
      return true;
    default:
      return false;
  }
}

export function listen(): () => void {
  const on = (event: KeyboardEvent) => {
    const at = event.target as HTMLElement;
    // The page behind a question does not change. A dialog that has just closed can have the focus until the next frame.
    if (at.closest("dialog[open]") !== null && !showsKeys.value) return;
    const isField = /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName);
    if (event.key === "Escape") {
      if (isField) at.blur();
      leave();
      return;
    }
    if (isField || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === " " && /^(BUTTON|A)$/.test(at.tagName)) return;
    if (act(event)) event.preventDefault();
  };
  addEventListener("keydown", on);
  return () => removeEventListener("keydown", on);
}
