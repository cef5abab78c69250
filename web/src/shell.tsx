// Parts that all screens have: header, keys, states of the server, footer.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { listen } from "./keys";
import { Header } from "./parts/header";
import { SamplingNotice } from "./parts/lacks";
import { Link } from "./parts/link";
import { CommandLine, Notice, toast } from "./parts/notice";
import { TimeBar } from "./parts/timebar";
import { Allocator } from "./screens/allocator";
import { DiffScreen } from "./screens/diff";
import { FlameScreen } from "./screens/flame";
import { Overview } from "./screens/overview";
import { Processes } from "./screens/processes";
import { SourceScreen } from "./screens/source";
import { Suspects } from "./screens/suspects";
import { TableScreen } from "./screens/table";
import { TimelineScreen } from "./screens/timeline";
import { goneBecause, goneSince, isLockedOut } from "./state/api";
import { forget, isOver, tick } from "./state/documents";
import { current, failure, names, refreshSources, sawRunning, sources } from "./state/live";
import { saved, savedOld } from "./state/offline";
import { change, param, place } from "./state/route";
import { hasToken, isUnproven, setToken } from "./state/token";
import { clock, timeOfDay, day } from "./units";

const SHOWN = {
  overview: Overview,
  flame: FlameScreen,
  table: TableScreen,
  timeline: TimelineScreen,
  diff: DiffScreen,
  suspects: Suspects,
  allocator: Allocator,
  source: SourceScreen,
};
const WIDE = new Set(["flame", "table", "source"]);
/** Screens that use all of a wide window, within margins. */
const USES_ALL = new Set(["timeline", "diff"]);
/** Screens that have something to say of several processes together. */
const OF_SUMS = new Set(["overview", "flame", "table"]);
/** Screens whose name is only said, not seen: the tab has it. */
const WITHOUT_TITLE = new Set(["flame", "table", "allocator", "source"]);
/** Screens that say what the profile lacks. */
const SAYS_LACKS = new Set(["overview", "suspects"]);
const showsLast = signal(false);

export function Shell() {
  useEffect(listen, []);
  const { screen } = place.value;
  const entry = current();
  useEffect(() => {
    document.title = entry === null ? "ramson" : `${entry.name} – ramson`;
  }, [entry?.name]);
  const isGone = goneSince.value !== null && !showsLast.value;
  const isShown = !isLockedOut.value && !isGone && entry !== null;
  const isWide = isShown && WIDE.has(screen);
  const Screen = SHOWN[screen];
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Header />
      {isShown && screen !== "overview" && screen !== "timeline" ? <TimeBar /> : null}
      <main id="main" class={isWide ? "wide" : isShown && USES_ALL.has(screen) ? "all" : ""} tabIndex={-1}>
        {isLockedOut.value ? <Enter /> : isGone ? <Gone /> : entry === null ? <Choose /> : (
          <>
            {WITHOUT_TITLE.has(screen) ? <h1 class="hidden-label">{`${screen} of ${entry.name}`}</h1> : null}
            <States />
            {SAYS_LACKS.has(screen) ? null : <SamplingNotice entry={entry} />}
            {entry.processes && !OF_SUMS.has(screen) ? null : <Screen key={`${screen} ${entry.id}`} entry={entry} />}
          </>
        )}
      </main>
      <Footer />
      {toast.value === "" ? null : (
        <div class="toast" role="status">
          {toast.value}
        </div>
      )}
    </>
  );
}

/** Notices about the source that every screen shows. */
function States() {
  const entry = current();
  if (entry === null) return null;
  const said = [];
  if (saved !== null) {
    said.push(
      <Notice fact={`Saved profile, as of ${day(saved.unix_ns)} ${timeOfDay(saved.unix_ns)}.`}>
        {saved.note}
        {savedOld === null ? null : <>Compared with {savedOld} on <Link to="diff">Diff</Link>.</>}
      </Notice>,
    );
  }
  if (param("t") !== "") {
    said.push(
      <Notice key="moment" fact={`As it was: ${momentName(param("t"))}.`}>
        <kbd>[</kbd> and <kbd>]</kbd> lead to the moments before and after.{" "}
        <button type="button" class="link" onClick={() => change({ t: "" })}>
          Now
        </button>
      </Notice>,
    );
  }
  if (entry.processes) {
    said.push(
      <Notice key="sum" fact={`The sum of ${entry.processes} processes.`}>
        Pages that they share count once for each. <Link to="overview" params={{ id: "" }}>Choose one</Link> for its past, its suspects and its allocator.
      </Notice>,
    );
  } else if (entry.pid === null && saved === null) {
    said.push(
      <Notice fact="Another tool’s profile.">
        It holds stacks and their bytes, but neither their ages nor the past, and nothing about the allocator.
      </Notice>,
    );
  } else if (!entry.is_running && sawRunning.value) {
    said.push(<Notice kind="part" fact={entry.state === null ? "Ended; cause unknown." : `Ended: ${entry.state}.`}>{isOver.value ? "Its profile ended with it. " : ""}These are the last figures.</Notice>);
  }
  return <>{said}</>;
}

/** A time in words of this place; `peak` and the like as they are. */
function momentName(text: string): string {
  const ms = /^\d{4}-/.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(ms) ? text : `${day(ms * 1e6)} ${timeOfDay(ms * 1e6)}`;
}

function Choose() {
  const wanted = place.value.params["id"];
  const all = sources.value;
  if (all === null) {
    if (failure.value !== null && failure.value.status !== 401) return <Notice kind="part" fact="Nothing can be shown:">{failure.value.message}</Notice>;
    return <p class="dim">Reading profiles …</p>;
  }
  return (
    <>
      {wanted === undefined ? null : <Missing id={wanted} />}
      <Processes of={all} />
    </>
  );
}

/** Notice about a source that is not served, or not any more. */
function Missing({ id }: { id: string }) {
  const name = names.get(id);
  return name === undefined ? (
    <Notice kind="part" fact={`${id} is not served.`}>These are:</Notice>
  ) : (
    <Notice kind="part" fact={`The profile of ${name} is gone.`}>Its file was removed while this page was open. What is still served:</Notice>
  );
}

function Enter() {
  const field = useRef<HTMLInputElement>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    setToken(field.current?.value ?? "");
    forget();
    tick.value += 1;
    void refreshSources();
  };
  return (
    <div class="enter card">
      <h1>{isUnproven.value ? "Wrong token, or another server" : hasToken() ? "Wrong token" : "The token is missing"}</h1>
      {isUnproven.value ? <p>This server could not prove that it is the one the token is for. The page has not sent the token, and has deleted it.</p> : null}
      <p class="quiet">
        The server prints the token with its address, and makes a new one at each start. With --token-file, it keeps the token in that file, and prints it only to a terminal:
      </p>
      <CommandLine text="ramson serve --token-file ~/.config/ramson-token" />
      <form onSubmit={submit}>
        <label class="hidden-label" for="token">
          Token
        </label>
        <input id="token" ref={field} type="password" autocomplete="off" placeholder="Token" />
        <button type="submit" class="plain">
          Use it
        </button>
      </form>
    </div>
  );
}

function Gone() {
  const since = goneSince.value ?? 0;
  return (
    <div class="enter card">
      <h1>The server does not answer</h1>
      <p class="quiet">
        No answer since {clock(since * 1e6)} ({goneBecause.value}). The page tries again every 2 s. To check whether it is running:
      </p>
      <CommandLine text="pgrep -af 'ramson serve'" />
      {sources.value === null ? null : (
        <p>
          <button type="button" class="plain" onClick={() => (showsLast.value = true)}>
            Show the last figures
          </button>
        </p>
      )}
    </div>
  );
}

function Footer() {
  const entry = current();
  return (
    <footer class="page">
      ramson
      {entry?.pid ? ` · ${entry.name} ${entry.pid}` : ""} · ± is a 95% interval · live bytes are usable bytes, allocated bytes are requested ones, both estimated from samples
    </footer>
  );
}
