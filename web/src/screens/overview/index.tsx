// What uses the memory, since when, and why it is not coming back.
import { Heading } from "../../parts/figures";
import { Link } from "../../parts/link";
import { CommandLine, Notice, Skeleton, Trouble } from "../../parts/notice";
import { Trend } from "../../parts/trend";
import { suspectCount } from "../../state/found";
import { useDocument } from "../../state/documents";
import { moment, pathOf } from "../../state/paths";
import { useSeries } from "../../state/series";
import type { Doctor, Leaks, SourceEntry, Subject, Top } from "../../types";
import { base, bytes, clock, count, relative } from "../../units";
import { Answers } from "./answers";
import { Largest } from "./largest";
import { RssBar } from "./rssbar";
import { TopSuspect } from "./topsuspect";

export function Overview({ entry }: { entry: SourceEntry }) {
  const at = moment();
  const isProcess = entry.pid !== null;
  const top = useDocument<Top>(pathOf(entry, "report", { view: "top", rows: 10, at }), "top");
  const leaks = useDocument<Leaks>(isProcess ? pathOf(entry, "leaks", { at }) : null, "leaks");
  const doctor = useDocument<Doctor>(entry.is_running && !at ? pathOf(entry, "doctor") : null, "doctor");
  const series = useSeries(entry);
  if (leaks.value) suspectCount.value = leaks.value.answer.leak_suspects;
  const subject = top.value ?? leaks.value;
  const releasable = doctor.value === null ? null : (doctor.value.parts["free_top"] ?? 0) + (doctor.value.parts["free_whole_pages"] ?? 0);
  return (
    <>
      <Who entry={entry} of={subject} doctor={doctor.value} />
      <Trouble failed={top.failed} />
      <Missing of={top.value} entry={entry} />
      {top.value === null ? <Skeleton height={148} /> : <Answers top={top.value} leaks={leaks.value} doctor={doctor.value} entry={entry} />}
      {isProcess ? <RssBar rss={doctor.value?.rss ?? subject?.rss ?? null} entry={entry} /> : null}
      <Trouble failed={doctor.failed} />
      <div class="columns">
        <section>
          <Heading title="Largest functions" says="their own allocations; library frames charged to their caller">
            <Link to="table">All</Link>
          </Heading>
          {top.value === null ? <Skeleton height={240} /> : <Largest top={top.value} leaks={leaks.value} />}
        </section>
        <div>
          {series.points.length < 2 ? null : (
            <section>
              <Heading title="Growth" says="RSS, and live below it">
                <Link to="timeline">Timeline</Link>
              </Heading>
              <Trend points={series.points} marks={series.marks} height={112} hasLabels />
            </section>
          )}
          {leaks.value === null ? null : <TopSuspect leaks={leaks.value} />}
          <Trouble failed={leaks.failed} />
          {releasable === null || doctor.value === null || doctor.value.statistics === null ? null : (
            <section>
              <Heading title="What a trim returns now" says={`${bytes(releasable)} of ${bytes(doctor.value.rss.terms["free_in_allocator"]?.value)} free`}>
                <Link to="allocator">Why not more</Link>
              </Heading>
              {releasable < 1 << 20 ? null : <CommandLine text={`ramson trim ${entry.pid}`} />}
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

function Who({ entry, of, doctor }: { entry: SourceEntry; of: Subject | null; doctor: Doctor | null }) {
  const isDead = entry.pid !== null && !entry.is_running;
  const samples = of?.health?.["samples"];
  const kind = entry.is_running ? "ok" : isDead && /SIG|memory/.test(entry.state ?? "") ? "bad" : "";
  return (
    <div class="subject">
      <div class="who">
        <h1>{base(entry.name)}</h1>
        {entry.pid === null ? <span class="dim">{of?.format ?? "file"}</span> : <span class="dim">pid {entry.pid}</span>}
        {entry.state === null ? null : <span class={`pill ${kind}`}>{entry.is_running ? "● Running" : `■ ${entry.state}`}</span>}
        {entry.command.length === 0 ? null : <code>{entry.command.join(" ")}</code>}
      </div>
      <dl class="facts">
        {of === null || of.interval_bytes === 0 ? null : <Fact name="interval" is={bytes(of.interval_bytes)} />}
        {samples === undefined ? null : <Fact name="samples" is={count(samples)} />}
        {of?.end?.time_unix_ns ? <Fact name="ended" is={clock(of.end.time_unix_ns)} /> : null}
        {doctor?.limit ? <Fact name="memory limit" is={bytes(doctor.limit.limit_bytes)} /> : null}
        {of?.live && entry.pid !== null ? <Fact name="live by the profile" is={`${bytes(of.live.value)} ${relative(of.live)}`} /> : null}
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

/** How it ended, and what the profile lacks. */
function Missing({ of, entry }: { of: Top | null; entry: SourceEntry }) {
  if (of === null) return null;
  const said = [];
  const end = of.end;
  if (end && !entry.is_running && (end.cause !== "" || end.signal !== null)) {
    const limit = end.memory_limit ? ` The limit of its control group ${end.cgroup} is ${bytes(end.memory_limit)}.` : "";
    const known = end.kernel_log ? " The kernel's log says so." : "";
    const rss = end.last_rss ? `RSS ${bytes(end.last_rss)} when it was last seen${end.peak_rss ? `, ${bytes(end.peak_rss)} at most` : ""}.` : "";
    said.push(
      <Notice kind="dead" fact={end.cause === "" || end.cause === "unknown" ? `${entry.state}:` : `Killed: ${end.cause}.`}>
        {rss}
        {limit}
        {known}
      </Notice>,
    );
  }
  for (const defect of of.defects) said.push(<Notice kind="part" fact="Not whole:">{defect}</Notice>);
  if (entry.pid !== null && (of.total.value ?? 0) === 0) {
    said.push(
      <Notice fact="No sample yet." command={`ramson run --interval 64K -- ${entry.command.join(" ")}`}>
        It has allocated less than about one interval of {bytes(of.interval_bytes)}. A smaller one sees more:
      </Notice>,
    );
  }
  return said.length === 0 ? null : <div style={{ marginTop: "12px" }}>{said}</div>;
}

