import { useEffect, useRef } from "preact/hooks";
import { KEYS, showsKeys, showsMenu } from "../keys";
import { found, suspectCount } from "../state/found";
import { isPaused, prefetch } from "../state/documents";
import { current, lastMoment, sources } from "../state/live";
import { saved } from "../state/offline";
import { change, hrefOf, param, place, SCREENS, type Screen } from "../state/route";
import { entryPath } from "../state/paths";
import type { SourceEntry } from "../types";
import { bytes, timeOfDay } from "../units";
import { switchTheme, theme } from "./canvas";
import { followed } from "./link";

const TITLES: Record<Screen, string> = {
  overview: "Overview",
  flame: "Flame",
  table: "Table",
  timeline: "Timeline",
  diff: "Diff",
  suspects: "Suspects",
  allocator: "Allocator",
  source: "Source",
};

export function Header() {
  return (
    <header class="top">
      <div class="bar">
        <a class="logo" href={hrefOf("overview")} onClick={followed("overview")} aria-label="ramson: overview">
          <svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true">
            <path d="M10 1c5 5 6 10 0 18C4 11 5 6 10 1z" fill="var(--accent)" />
            <path d="M10 6v9" stroke="var(--bg)" stroke-width="1.4" />
          </svg>
          <span>ramson</span>
        </a>
        <Switch />
        <Search />
        <button type="button" class="icon" aria-label={`Theme: ${theme.value}`} title="Theme (t)" onClick={switchTheme}>
          <svg width="16" height="16" viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.4" aria-hidden="true">
            <circle cx="8" cy="8" r="3" />
            <path d="M8 1v2M8 13v2M1 8h2M13 8h2M3 3l1.4 1.4M11.6 11.600L13 13M3 13l1.4-1.400M11.6 4.400L13 3" />
          </svg>
        </button>
        <button type="button" class="icon hide-s" aria-label="Keys" title="Keys (?)" onClick={() => (showsKeys.value = true)}>
          ?
        </button>
      </div>
      <div class="tabs">
        <nav aria-label="Screens">
          {SCREENS.map((screen) => (
            <Tab key={screen} screen={screen} />
          ))}
        </nav>
        <AsOf />
      </div>
      <Keys />
    </header>
  );
}

function Tab({ screen }: { screen: Screen }) {
  const entry = current();
  const warm = () => {
    const path = entry === null ? null : entryPath(entry, screen);
    if (path !== null) prefetch(path);
  };
  const isHere = place.value.screen === screen;
  const tab = useRef<HTMLAnchorElement>(null);
  // The tab of this screen is scrolled into view if not all tabs have room.
  useEffect(() => {
    if (isHere) tab.current?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [isHere]);
  return (
    <a ref={tab} href={hrefOf(screen)} onClick={followed(screen)} onMouseEnter={warm} aria-current={isHere ? "page" : undefined}>
      {TITLES[screen]}
      {screen === "suspects" && suspectCount.value > 0 ? <span class="count">{suspectCount.value}</span> : null}
    </a>
  );
}

function AsOf() {
  const entry = current();
  const moment = lastMoment.value;
  if (entry === null || saved !== null || !entry.is_running) return null;
  return (
    <div class="as-of hide-s">
      {moment === null ? null : (
        <span class="hide-m">
          RSS {bytes(moment.rss)} as of {timeOfDay(moment.unix_ns)}
        </span>
      )}
      <button type="button" class="plain" aria-pressed={isPaused.value} onClick={() => (isPaused.value = !isPaused.value)}>
        {isPaused.value ? "Resume" : "Pause"}
      </button>
    </div>
  );
}

export function Dot({ of }: { of: SourceEntry }) {
  const isKilled = of.state !== null && /SIG(KILL|SEGV|ABRT|BUS)|memory|OOM/i.test(of.state);
  const kind = of.pid === null && !of.processes ? "file" : of.is_running ? "" : isKilled ? "dead" : "past";
  return <span class={`dot ${kind}`} aria-hidden="true" />;
}

const kindOf = (entry: SourceEntry) => (entry.processes ? `${entry.processes} processes` : "file");

function Switch() {
  const entry = current();
  const all = sources.value?.sources ?? [];
  const label = entry === null ? (all.length === 0 ? "nothing served" : `${all.length} profiles`) : entry.name;
  return (
    <div class="switch">
      <button type="button" aria-expanded={showsMenu.value} aria-haspopup="true" onClick={() => (showsMenu.value = !showsMenu.value)}>
        {entry === null ? null : <Dot of={entry} />}
        <span>
          <b>{label}</b>
        </span>
        {entry === null ? null : (
          <span class="quiet hide-s">
            {entry.pid === null ? kindOf(entry) : `pid ${entry.pid} · ${entry.state ?? ""}`}
          </span>
        )}
        <span aria-hidden="true">▾</span>
      </button>
      {showsMenu.value ? <Menu /> : null}
    </div>
  );
}

function Menu() {
  const all = sources.value?.sources ?? [];
  const here = current()?.id;
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    list.current?.querySelector("a")?.focus();
  }, []);
  return (
    <div class="menu">
      <ul ref={list} aria-label="Profiles">
        {all.map((entry) => {
          const to = { id: entry.id, p: "", n: "", t: "", a: "", b: "", src: "" };
          const chosen = (event: MouseEvent) => {
            showsMenu.value = false;
            followed(place.value.screen, to)(event);
          };
          return (
            <li key={entry.id}>
              <a href={hrefOf(place.value.screen, to)} onClick={chosen} aria-current={entry.id === here}>
                <Dot of={entry} />
                <span class="name">
                  <b>{entry.name}</b> <span class="dim">{entry.command.slice(1).join(" ")}</span>
                </span>
                <span class="number">{entry.rss === null ? bytes(entry.live?.value) : bytes(entry.rss)}</span>
                <span class="dim number">{entry.pid === null ? kindOf(entry) : `${entry.pid} ${entry.state ?? ""}`}</span>
              </a>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function Search() {
  const text = param("f");
  const typed = (event: Event) => change({ f: (event.target as HTMLInputElement).value }, true);
  return (
    <div class="search" role="search">
      <svg width="14" height="14" viewBox="0 0 14 14" fill="none" stroke="currentColor" stroke-width="1.6" aria-hidden="true">
        <circle cx="6" cy="6" r="4.5" />
        <path d="M9.5 9.500L13 13" />
      </svg>
      <label class="hidden-label" for="search">
        Search functions, files and libraries
      </label>
      <input id="search" class="field" type="text" spellcheck={false} autocomplete="off" value={text} onInput={typed} placeholder="Function, file or library (regular expression)" />
      {text === "" ? <kbd class="hide-s">/</kbd> : <span class="found" role="status">{found.value}</span>}
    </div>
  );
}

function Keys() {
  const dialog = useRef<HTMLDialogElement>(null);
  const isShown = showsKeys.value;
  useEffect(() => {
    if (isShown) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isShown]);
  return (
    <dialog ref={dialog} aria-labelledby="keys-title" onClose={() => (showsKeys.value = false)}>
      <h2 id="keys-title">Keys</h2>
      <dl>
        {KEYS.map(([key, does]) => (
          <>
            <dt key={key}>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </>
        ))}
      </dl>
      <button type="button" class="plain" onClick={() => (showsKeys.value = false)}>
        Close
      </button>
    </dialog>
  );
}
