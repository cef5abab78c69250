// Answers: what uses the memory, since when, and why it is not coming back.
import { AgeBars } from "../../parts/ages";
import { capital, Heading } from "../../parts/figures";
import { Link } from "../../parts/link";
import { Lacks, samplingOf } from "../../parts/lacks";
import { releasableOf, wholeOf } from "../../parts/rss";
import { CommandLine, Notice, Skeleton, Trouble } from "../../parts/notice";
import { Trend } from "../../parts/trend";
import { suspectCount } from "../../state/found";
import { useDocument } from "../../state/documents";
import { moment, pathOf } from "../../state/paths";
import { useSeries } from "../../state/series";
import type { Explained, End, Leaks, SourceEntry, Subject, Top } from "../../types";
import { absolute, base, bytes, timeOfDay, count, estimated, relative } from "../../units";
import { Answers } from "./answers";
import { Largest } from "./largest";
import { Members } from "./members";
import { RssBar } from "./rssbar";
import { TopSuspect } from "./topsuspect";

export function Overview({ entry }: { entry: SourceEntry }) {
  const at = moment();
  const isProcess = entry.pid !== null;
  const top = useDocument<Top>(pathOf(entry, "report", { view: "functions", rows: 10, at }), "top");
  const leaks = useDocument<Leaks>(isProcess ? pathOf(entry, "leaks", { at }) : null, "leaks");
  const isExamined = isProcess && entry.is_running && !at;
  const explained = useDocument<Explained>(isExamined ? pathOf(entry, "explain") : null, isExamined ? "explain" : null);
  const series = useSeries(entry);
  if (leaks.value) suspectCount.value = leaks.value.answer.leak_suspects;
  const subject = top.value ?? leaks.value;
  const atNs = subject?.history?.time_unix_ns ?? null;
  const whole = wholeOf(explained.value?.rss ?? subject?.rss ?? null, entry.is_running && atNs === null ? [] : series.points, atNs);
  const statistics = explained.value?.statistics ?? null;
  const releasable = statistics === null ? null : releasableOf(statistics);
  return (
    <>
      <Who entry={entry} of={subject} explained={explained.value} />
      <Trouble failed={top.failed} />
      <Missing of={top.value} entry={entry} />
      {top.value === null ? <Skeleton height={148} /> : <Answers top={top.value} leaks={leaks.value} explained={explained.value} entry={entry} whole={whole} />}
      {isProcess || entry.processes ? <RssBar of={whole} isComing={entry.is_running && atNs === null} /> : null}
      <Trouble failed={explained.failed} />
      <div class="columns">
        {entry.processes ? <Members of={top.value?.processes ?? null} all={entry.processes} /> : null}
        <section>
          <Heading title="Largest functions" says="their own allocations; library frames attributed to their callers">
            <Link to="table">All</Link>
          </Heading>
          {top.value === null ? <Skeleton height={240} /> : <Largest top={top.value} leaks={leaks.value} hasTimes={isProcess} />}
        </section>
        <div>
          {series.points.length < 2 ? null : (
            <section>
              <Heading title="Growth" says="RSS (dashed) and live">
                <Link to="timeline">Timeline</Link>
              </Heading>
              <Trend points={series.points} marks={series.marks} height={112} hasLabels />
            </section>
          )}
          {leaks.value?.ages ? (
            <section class="suspect-like">
              <Heading title="Age of live bytes" says="one bar per doubling">
                <Link to="flame" params={{ c: "age" }}>
                  Flame graph by age
                </Link>
              </Heading>
              <AgeBars of={leaks.value.ages} />
            </section>
          ) : null}
          {leaks.value === null ? null : <TopSuspect leaks={leaks.value} />}
          <Trouble failed={leaks.failed} />
          {releasable === null || explained.value === null ? null : (
            <section>
              <Heading title="What a trim returns now" says={`${estimated(releasable)} ${absolute(releasable)} of ${bytes(explained.value.rss.terms["free_in_allocator"]?.value)} free`.replace("  ", " ")}>
                <Link to="allocator">Why not more</Link>
              </Heading>
              {(releasable.value ?? 0) < 1 << 20 ? null : <CommandLine text={`ramson trim ${entry.pid}`} />}
            </section>
          )}
        </div>
      </div>
      {(top.value?.missing_symbols ?? []).length === 0 ? null : (
        <section>
          <Heading title="Names are missing" says="of these binaries" />
          {(top.value?.missing_symbols ?? []).slice(0, 5).map((missing) => (
            <p class="quiet" key={missing}>
              {missing}
            </p>
          ))}
        </section>
      )}
    </>
  );
}

function Who({ entry, of, explained }: { entry: SourceEntry; of: Subject | null; explained: Explained | null }) {
  const isDead = entry.pid !== null && !entry.is_running;
  const samples = of?.health?.["samples"];
  const kind = entry.is_running ? "ok" : isDead && /SIG|memory/.test(entry.state ?? "") ? "bad" : "";
  return (
    <div class="subject">
      <div class="who">
        <h1>{base(entry.name)}</h1>
        {entry.pid === null ? <span class="dim">{entry.processes ? `${entry.processes} processes` : (of?.format ?? "file")}</span> : <span class="dim">pid {entry.pid}</span>}
        {entry.state === null ? null : <span class={`pill ${kind}`}>{entry.is_running ? `● ${capital(entry.state)}` : `■ ${entry.state}${of?.end?.cause && of.end.cause !== "unknown" ? `, ${of.end.cause}` : ""}`}</span>}
        {entry.command.length === 0 ? null : <code>{entry.command.join(" ")}</code>}
      </div>
      <dl class="facts">
        {of === null || of.interval_bytes === 0 ? null : <Fact name="interval" is={intervalOf(of)} />}
        {samples === undefined ? null : <Fact name="samples" is={count(samples)} />}
        {isDead ? <Fact name="RSS" is={of?.end?.last_rss ? `${bytes(of.end.last_rss)} ${of.end.last_rss_is}` : entry.rss === null ? "not known" : `${bytes(entry.rss)} as last seen`} /> : null}
        {of?.end?.time_unix_ns ? <Fact name="ended" is={timeOfDay(of.end.time_unix_ns)} /> : null}
        {explained?.limit ? <Fact name="memory limit" is={bytes(explained.limit.limit_bytes)} /> : null}
        {of?.live && (entry.pid !== null || entry.processes) ? <Fact name="live" is={`${estimated(of.live)} ${relative(of.live)}`} /> : null}
      </dl>
    </div>
  );
}

function Fact({ name, is }: { name: string; is: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{is}</dd>
    </div>
  );
}

/** In the words of the command line. */
function intervalOf({ interval_bytes: present, recording }: Subject): string {
  const configured = recording?.configured_interval_bytes ?? 0;
  return configured > 0 && configured < present ? `${bytes(configured)} (raised to ${bytes(present)} for the overhead target)` : bytes(present);
}

/** How it ended, and what the profile lacks. */
function Missing({ of, entry }: { of: Top | null; entry: SourceEntry }) {
  if (of === null) return null;
  const said = [];
  const end = of.end;
  if (end && !entry.is_running && (end.cause !== "" || end.signal !== null)) {
    said.push(
      <Notice kind="dead" fact={factOf(end, entry)}>
        {evidenceOf(end)}
      </Notice>,
    );
  }
  if (of.defects.length > 0) said.push(<Lacks key="lacks" defects={of.defects} entry={entry} />);
  if (samplingOf(entry) === null && entry.pid !== null && (of.total.value ?? 0) === 0 && of.health?.["samples"] === 0) {
    said.push(
      <Notice key="none" fact={entry.is_running ? "No sample yet." : "No sample."} command={smaller(entry, of.interval_bytes)}>
        It has probably allocated less than one interval ({bytes(of.interval_bytes)}){entry.is_running ? " so far" : ""}. A smaller interval records more:
      </Notice>,
    );
  }
  return said.length === 0 ? null : <div style={{ marginTop: "12px" }}>{said}</div>;
}

/** Recording with an eighth of the interval, 64 KiB at most. */
function smaller(entry: SourceEntry, interval: number): string {
  const bytes = Math.max(1, Math.min(64 << 10, Math.floor(interval / 8)));
  const text = bytes % 1024 === 0 ? `${bytes / 1024}K` : `${bytes}`;
  return entry.state === "attached" ? `ramson set ${entry.pid} --interval ${text}` : `ramson run --interval ${text} -- ${entry.command.join(" ")}`;
}

/** A signal of its own is no kill. */
function factOf(end: End, entry: SourceEntry): string {
  if (end.cause === "" || end.cause === "unknown") return `${entry.state}:`;
  const when = end.time_unix_ns === null ? "" : ` at ${timeOfDay(end.time_unix_ns)}`;
  if (end.cause === "OOM killer") return `Killed by the OOM killer${when}.`;
  return end.signal === 9 ? `Killed: ${end.cause}.` : `Died (${entry.state}): ${end.cause}.`;
}

function evidenceOf(end: End): string {
  const said = [];
  if (end.failed_allocation_bytes !== null) said.push(`An allocation of ${bytes(end.failed_allocation_bytes)} had failed.`);
  else if (end.lack_of_memory === "abort") said.push("It aborted because it could get no more memory.");
  if (end.last_rss !== null) said.push(`RSS ${bytes(end.last_rss)} ${end.last_rss_is}${(end.peak_rss ?? 0) > end.last_rss ? `, peak ${bytes(end.peak_rss)}` : ""}.`);
  if (end.memory_limit) said.push(`The limit of its control group ${end.cgroup} is ${bytes(end.memory_limit)}.`);
  if (end.kernel_log) said.push("The kernel’s log says so.");
  return said.join(" ");
}
