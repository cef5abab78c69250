// Since when: RSS and live over time. A window that is dragged is compared.
import { useEffect } from "preact/hooks";
import { Heading } from "../../parts/figures";
import { CommandLine, Notice, Skeleton, Trouble } from "../../parts/notice";
import { keptWindows, windowOf } from "../../parts/timebar";
import { describe } from "../../parts/trend";
import { saved } from "../../state/offline";
import { useSeries, useSteps, type Kept, type Point } from "../../state/series";
import { change, param } from "../../state/route";
import type { SourceEntry } from "../../types";
import { bytes, clock, duration, isNoise, signed } from "../../units";
import { Markers } from "./markers";
import { Moved } from "./moved";
import { Plot } from "./plot";
import { Windows } from "./windows";

export function TimelineScreen({ entry }: { entry: SourceEntry }) {
  const { points, kept, marks, loaded } = useSeries(entry);
  const steps = useSteps(entry, loaded.value);
  useEffect(() => {
    if (param("b") !== "" && param("a") === "") change({ b: "" }, true);
  }, []);
  if (entry.pid === null) return (
    <>
      <h1 class="hidden-label">Timeline</h1>
      <Notice fact="Not in this file:">it is one moment, and says nothing of the time before.</Notice>
    </>
  );
  if (points.length < 2) {
    return loaded.value === null && loaded.failed === null ? (
      <Skeleton height={320} />
    ) : (
      <>
        <h1 class="hidden-label">Timeline</h1>
        {saved !== null ? (
          <Notice fact="Not in this file:">it is one moment. To keep the past of a process: ramson history.</Notice>
        ) : (
          <Notice fact="No history was recorded." command={entry.is_running ? `ramson history ${entry.pid}` : undefined}>
            {entry.is_running ? "What this page sees appears here in a few seconds. To keep moments from now on: " : ""}
            {loaded.failed?.message ?? ""}
          </Notice>
        )}
      </>
    );
  }
  const [first, last] = [points[0]!, points.at(-1)!];
  const window = windowOf(param("a"));
  return (
    <>
      <div class="subject">
        <h1>Timeline</h1>
        <span class="quiet">
          {duration(last.unix_ns - first.unix_ns)}, {points.length} moments{loaded.value?.history ? ` · ${loaded.value.history}` : ""}
        </span>
      </div>
      <Trouble failed={loaded.failed?.status === 404 ? null : loaded.failed} />
      <Windows times={{ first: first.unix_ns, last: last.unix_ns, marks }} kept={kept} />
      <section>
        <Heading title="RSS in its parts" says="parts are read within 0.3% of a core and joined by lines; the solid line is live memory (usable bytes), its band ±. Drag to select, Shift-drag for a second window, double-click clears" />
        <Plot points={points} marks={marks} steps={steps} />
        <p class="hidden-label">{describe(points)}</p>
      </section>
      <Ends points={points} />
      <div class="columns">
        <section>
          <Heading title="What moved in the window" says={window !== null ? "significant changes, the largest first" : kept === null ? "" : "select one above, type it, or choose:"} />
          {window === null ? <Presets entry={entry} last={last} kept={kept} /> : <Moved entry={entry} from={last.unix_ns - window[0] * 1e9} to={last.unix_ns - window[1] * 1e9} />}
        </section>
        <Markers points={points} marks={marks} steps={steps} />
      </div>
    </>
  );
}

function Ends({ points }: { points: Point[] }) {
  const window = windowOf(param("a"));
  const last = points.at(-1)!;
  const at = (seconds: number) => nearest(points, last.unix_ns - seconds * 1e9);
  const [from, to] = window === null ? [points[0]!, last] : [at(window[0]), at(window[1])];
  // A process that has ended has none.
  const resident = points.filter((point) => point.rss !== null && point.unix_ns <= to.unix_ns).at(-1);
  const live = { value: (to.live ?? 0) - (from.live ?? 0), half_width_95: Math.hypot(to.half, from.half) };
  return (
    <dl class="facts" style={{ marginTop: "12px" }}>
      <div>
        <dt>{window === null ? "all of it" : "window A"}</dt>
        <dd>
          {clock(from.unix_ns)} – {clock(to.unix_ns)}
        </dd>
      </div>
      <div>
        <dt>RSS</dt>
        <dd>
          {bytes(from.rss)} → {bytes(resident?.rss ?? null)}
        </dd>
      </div>
      <div>
        <dt>live</dt>
        <dd>
          {bytes(from.live)} → {bytes(to.live)}{" "}
          {from.live === null || to.live === null ? null : <span class={`pm ${isNoise(live) ? "noise" : ""}`}>({signed(live)})</span>}
        </dd>
      </div>
    </dl>
  );
}

export function nearest(points: Point[], ns: number): Point {
  return points.reduce((best, point) => (Math.abs(point.unix_ns - ns) < Math.abs(best.unix_ns - ns) ? point : best));
}

function Presets({ entry, kept, last }: { entry: SourceEntry; kept: Kept | null; last: Point }) {
  if (kept === null) {
    return (
      <>
        <p class="dim">No stacks are kept of the past.{entry.is_running ? " To keep them from now on:" : ""}</p>
        {entry.is_running ? <CommandLine text={`ramson history ${entry.pid}`} /> : null}
      </>
    );
  }
  return (
    <p>
      {keptWindows(kept, last.unix_ns).map((seconds, at, all) => (
        <button key={seconds} type="button" class="plain" style={{ marginRight: "8px" }} onClick={() => change({ a: `${seconds}-0`, b: "" })}>
          {at === all.length - 1 ? "all that is kept" : `last ${duration(seconds * 1e9)}`}
        </button>
      ))}
    </p>
  );
}
