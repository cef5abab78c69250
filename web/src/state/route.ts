// The address is the state: the screen is its path, everything else a parameter. Defaults are not written.
import { signal } from "@preact/signals";
import { saved, savedOld } from "./offline";

export const SCREENS = ["overview", "flame", "table", "timeline", "diff", "suspects", "allocator", "source"] as const;
export type Screen = (typeof SCREENS)[number];
export type Params = Readonly<Record<string, string>>;

export interface Place {
  screen: Screen;
  params: Params;
}

function parse(): Place {
  const text = saved ? location.hash.slice(1) : location.pathname + location.search;
  const [path = "", query = ""] = text.split("?");
  const name = path.replace(/^\//, "");
  const screen = SCREENS.find((is) => is === name) ?? (savedOld === null ? "overview" : "diff");
  return { screen, params: Object.fromEntries(new URLSearchParams(query)) };
}

function write(place: Place): string {
  const kept = Object.entries(place.params).filter(([, value]) => value !== "");
  const query = new URLSearchParams(kept).toString();
  return `${saved ? "#" : ""}/${place.screen}${query === "" ? "" : `?${query}`}`;
}

export const place = signal<Place>(parse());

export function param(name: string, otherwise = ""): string {
  return place.value.params[name] ?? otherwise;
}

/** The address of a screen with some parameters changed; those of other screens stay. */
export function hrefOf(screen: Screen, change: Params = {}): string {
  return write({ screen, params: { ...place.value.params, ...change } });
}

export function go(screen: Screen, change: Params = {}, isReplaced = false): void {
  const next = { screen, params: { ...place.value.params, ...change } };
  const href = write(next);
  if (href === write(place.value)) return;
  if (isReplaced) history.replaceState(null, "", href);
  else history.pushState(null, "", href);
  if (screen !== place.value.screen && !isReplaced) scrollTo(0, 0);
  place.value = parse();
}

/** Changes parameters of this screen. */
export function change(params: Params, isReplaced = false): void {
  go(place.value.screen, params, isReplaced);
}

addEventListener("popstate", () => {
  place.value = parse();
});
