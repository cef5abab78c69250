// Three sentences, and the screen that has the evidence for each.
import { limitOf } from "../../parts/limit";
import { Link } from "../../parts/link";
import { beforeOf } from "../../parts/rss";
import type { Whole } from "../../parts/rss";
import type { Explained, Estimate, Leaks, Rss, SourceEntry, Suspect, Top } from "../../types";
import { absolute, bytes, timeOfDay, duration, estimated, relative, share, shortName } from "../../units";

interface Of {
  top: Top;
  leaks: Leaks | null;
  explained: Explained | null;
  entry: SourceEntry;
  whole: Whole | null;
}

export function Answers(of: Of) {
  return (
    <div class="answers">
      <div>
        <h2>What is using the memory?</h2>
        <What {...of} />
        <Link to="flame">Flame graph</Link>
      </div>
      <div>
        <h2>Since when?</h2>
        <When {...of} />
        {of.entry.pid === null ? null : <Link to="timeline">Timeline</Link>}
      </div>
      <div>
        <h2>Why isn’t it coming back?</h2>
        <Why {...of} />
        <Evidence {...of} />
      </div>
    </div>
  );
}

/** Link to the evidence. A process that is gone has only its growth as evidence. */
function Evidence({ leaks, entry }: Of) {
  if (leaks !== null && leaks.answer.leak_suspects > 0) return <Link to="suspects">Evidence</Link>;
  return entry.pid === null || !entry.is_running ? null : <Link to="allocator">Evidence</Link>;
}

/** The function whose callees hold most without being the program's outermost ones: the deepest with more than half. */
function largest(top: Top) {
  const total = top.total.value ?? 0;
  return [...top.rows].sort((a, b) => (b.flat.value ?? 0) - (a.flat.value ?? 0)).find((row) => (row.flat.value ?? 0) > 0 && total > 0);
}

function What({ top, explained, entry, whole }: Of) {
  const rss = explained?.rss ?? top.rss ?? null;
  const row = largest(top);
  const isLive = top.sample_type.startsWith("inuse");
  const isHeld = rss !== null && !rss.may_hold_live && (rss.terms["free_in_allocator"]?.value ?? 0) === 0;
  const free = rss?.terms[isHeld ? "held_by_allocator" : "free_in_allocator"] ?? null;
  if (rss !== null && free !== null && top.sample_type === "inuse_space" && (free.value ?? 0) > Math.max(0.5 * rss.bytes, top.total.value ?? 0)) {
    return (
      <>
        <p class="headline">
          {estimated(free)} {isHeld ? `held by ${rss.allocator}` : "free"}
          <span class="pm">
            {relative(free)} · {share(free.value, rss.bytes)} of RSS
          </span>
        </p>
        <p>
          {isHeld ? "This is what it holds beyond the live blocks." : `The program freed it, and ${rss.allocator} has not returned it.`} <b>{estimated(top.total)}</b> <span class="pm">{relative(top.total)}</span> is live
          {row === undefined ? "" : ", the largest part of it "}
          {row === undefined ? null : (
            <>
              in <code>{shortName(row.function)}</code>
            </>
          )}
          . <Link to="flame" params={{ si: "alloc_space" }}>What allocated it</Link>
        </p>
      </>
    );
  }
  const isAttached = entry.is_running && entry.state === "attached";
  // With Go’s live bytes among them, they are no term.
  const resident = rss === null || rss.live === null || (rss.terms["go_heap"]?.value ?? 0) > 0 ? undefined : rss.terms["live"];
  const unseen = rss?.terms["allocated_before_the_attach_or_not_seen"]?.value ?? 0;
  if (rss !== null && top.sample_type === "inuse_space" && unseen > (top.total.value ?? 0)) {
    return (
      <>
        <p class="headline">
          {bytes(unseen)} live, not recorded
          <span class="pm">{share(unseen, rss.bytes)} of RSS</span>
        </p>
        <p>
          Allocated before {beforeOf(rss)}, or not seen by ramson, so no stack is known. Of what was allocated since, <b>{estimated(top.total)}</b> <span class="pm">{relative(top.total)}</span> is live.
        </p>
        {whole === null ? null : <Larger of={whole} />}
      </>
    );
  }
  return (
    <>
      <p class="headline">
        {estimated(top.total, top.unit)} {isLive ? "live" : "allocated"}
        {isAttached ? " since the attach" : ""}
        <span class="pm">
          {relative(top.total)}
          {resident === undefined || top.sample_type !== "inuse_space" || isSame(resident.value, top.total.value) ? "" : ` · ${bytes(resident.value)} of it resident, ${share(resident.value, rss!.bytes)} of RSS`}
        </span>
      </p>
      {row === undefined ? (
        <p>No function holds any.</p>
      ) : (
        <p>
          <code>{shortName(row.function)}</code> holds <b>{estimated(row.flat, top.unit)}</b> <span class="pm">{relative(row.flat)}</span>, {share(row.flat.value, top.total.value)} of it.
        </p>
      )}
      {whole === null || top.sample_type !== "inuse_space" ? null : <Larger of={whole} />}
    </>
  );
}

/** Whether two figures differ by no more than 1%. */
function isSame(one: number | null, other: number | null): boolean {
  return Math.abs((one ?? 0) - (other ?? 0)) <= 0.01 * (other ?? 0);
}

/** The largest part of RSS, unless that is live memory. */
function Larger({ of }: { of: Whole }) {
  const [first] = [...of.terms].sort((a, b) => (b.of.value ?? 0) - (a.of.value ?? 0));
  if (first === undefined || first.kind === "live" || first.kind === "unseen") return null;
  return (
    <p>
      {2 * (first.of.value ?? 0) > of.bytes ? "Most" : "The largest part"} of RSS {of.unix_ns === null ? "is" : "was"} {first.name}: <b>{estimated(first.of)}</b>, {share(first.of.value, of.bytes)}
      {of.unix_ns === null ? "" : `, at ${timeOfDay(of.unix_ns)}`}.
    </p>
  );
}

const hoursTo = (room: number, perHour: number) => duration((room / perHour) * 3.6e12);

function rangeTo(room: number, { value, half_width_95: half }: Estimate): string {
  if (value === null || half === null) return "";
  return half < value ? `(${hoursTo(room, value + half)} to ${hoursTo(room, value - half)})` : `(${hoursTo(room, value + half)} or later)`;
}

function oldest(suspects: Suspect[]): number | null {
  const since = suspects.filter((one) => one.verdict === "growing").map((one) => one.growing_since_unix_ns);
  const known = since.filter((ns): ns is number => ns !== null);
  return known.length === 0 ? null : Math.min(...known);
}

/** The growth that meets a limit first: that of the leak suspects, of all that is live, or of RSS. */
function fastestOf(answer: Leaks["answer"]): { what: string; per_hour: Estimate } {
  const { live_per_hour: live, rss } = answer.totals;
  const all = [{ what: "At this rate,", per_hour: answer.growth_per_hour }];
  if (live !== null) all.push({ what: `Live memory as a whole grows by ${estimated(live)}/h: at this rate,`, per_hour: live });
  const ofRss = rss?.bytes_per_hour;
  if (ofRss && rss.looks >= 4) all.push({ what: `RSS grows by ${estimated(ofRss)}/h: at this rate,`, per_hour: ofRss });
  return all.reduce((most, one) => ((one.per_hour.value ?? 0) > (most.per_hour.value ?? 0) ? one : most));
}

function When(of: Of) {
  const endedNs = of.leaks?.answer.sampling_ended_ns ?? null;
  return (
    <>
      <Since {...of} />
      {endedNs === null ? null : <p>As of {duration(endedNs)} ago, when sampling ended.</p>}
    </>
  );
}

function Since({ leaks, explained, entry }: Of) {
  if (entry.processes) return <p class="verdict">Choose a process to see this.</p>;
  if (entry.pid === null) return <p class="verdict">The profile does not say: it is one moment of a process.</p>;
  if (leaks === null) return <p class="dim">Looking at the ages of what is live …</p>;
  const { answer } = leaks;
  if (answer.leak_suspects > 0) {
    const since = oldest(leaks.suspects);
    const limit = explained?.limit;
    const fastest = fastestOf(answer);
    const perHour = answer.growth_per_hour.value ?? 0;
    const room = limit ? limit.limit_bytes - limit.used_bytes : 0;
    const first = leaks.suspects.find((one) => one.verdict === "growing");
    return (
      <>
        <p class="headline">
          {since === null ? "Growing" : timeOfDay(since)}
          {first?.growing_for_ns ? <span class="pm">for {duration(first.growing_for_ns)}</span> : null}
        </p>
        <p>
          Growing by <b class="up">{bytes(perHour)}/h</b> <span class="pm">{absolute(answer.growth_per_hour)}</span>, in {answer.leak_suspects} function{answer.leak_suspects === 1 ? "" : "s"}
          {leaks.groups[0] !== undefined && leaks.groups[0].suspects.length === answer.leak_suspects ? (
            <>
              {" "}
              below <code>{shortName(leaks.groups[0].function)}</code>
            </>
          ) : null}
          .
          {limit && perHour > 0 && entry.is_running ? (
            <>
              {" "}
              {fastest.what} the process’s control group reaches the limit of {bytes(limit.limit_bytes)} in <b>{hoursTo(room, fastest.per_hour.value ?? 0)}</b> <span class="pm">{rangeTo(room, fastest.per_hour)}</span>.
            </>
          ) : null}
        </p>
      </>
    );
  }
  const live = answer.totals.live_per_hour;
  if (live !== null) {
    return (
      <>
        <p class="headline">Growing</p>
        <p>
          Live memory as a whole grows by <b class="up">{estimated(live)}/h</b> <span class="pm">{absolute(live)}</span>; no single function shows a leak.
        </p>
      </>
    );
  }
  if (answer.undecided_share > 0.5) {
    return (
      <>
        <p class="headline">Too early to tell</p>
        <p>
          {share(answer.undecided_share, 1)} of live memory cannot be judged yet
          {answer.judged_in_ns === null || !answer.is_running ? "" : `; ask again in about ${duration(answer.judged_in_ns)}`}.
        </p>
      </>
    );
  }
  if (answer.findings === 0) {
    return (
      <>
        <p class="headline">Not known yet</p>
        <p>No sampled memory is live. {limitOf(leaks)}</p>
      </>
    );
  }
  const largest = leaks.suspects[0]?.ages;
  return (
    <>
      <p class="headline">{answer.cannot_tell === null ? "No leak found" : "No leak found yet"}</p>
      <p>
        {limitOf(leaks)}
        {answer.undecided === 0 ? "" : ` ${answer.undecided} of ${answer.findings} functions, with ${share(answer.undecided_share, 1)} of live memory, cannot be judged yet.`}
        {largest ? ` The oldest block of the largest function is ${duration(largest.oldest_ns)} old.` : ""}
      </p>
    </>
  );
}

const TITLES: Record<string, string> = {
  live: "The program has not freed it",
  growing: "It is not freed, and grows",
  free: "It is free, but not returned",
  held: "The allocator holds it",
  mmap: "The program mapped it itself",
  files: "It is code and mapped files",
  freed_lazily: "It is freed lazily: the kernel takes it back",
  go_live: "It is live Go objects",
  go_not_collected: "It is Go objects that are not collected yet",
  go_unused: "It is room among Go’s objects",
  go_free: "It is free in Go, and not returned yet",
  go_stacks: "It is stacks of goroutines",
  go_runtime: "It is Go’s runtime’s own",
  inherited: "It is shared with its parent",
  copied: "It was copied from its parent",
  variables: "It is the binaries’ variables",
  shared: "It is shared memory",
  stacks: "It is thread stacks",
  ended_stacks: "It is stacks of ended threads",
  thread_locals: "It is thread-local variables",
  huge_pages: "It is zeros in huge pages",
  metadata: "It is allocator metadata",
  not_walked: "It could not be read",
  ramson: "It is ramson’s own",
  kernel: "It is the kernel’s",
  changed: "It changed while it was read",
  other: "It is other anonymous memory",
};

/** Title of a cause. If the profile does not know all live memory, the memory that the allocator holds is not known to be free. */
function titleOf(cause: string, rss: Rss): string {
  if (cause === "unseen") return `It is live, from before ${beforeOf(rss)}`;
  return cause === "held" && rss.may_hold_live ? "It is live or free: the allocator holds it" : (TITLES[cause] ?? "The largest part");
}

function Why({ explained, entry, leaks }: Of) {
  if (entry.processes) return <p class="verdict">Choose a process: each has its own allocator.</p>;
  if (entry.pid === null) return <p class="verdict">The profile holds nothing about the allocator.</p>;
  if (!entry.is_running) {
    return <p class="verdict">The process is gone, and its memory with it. {leaks && leaks.answer.leak_suspects > 0 ? "What grew until then is in Suspects." : ""}</p>;
  }
  if (explained === null) return <p class="dim">Reading the allocator’s own figures …</p>;
  const cause = explained.causes[0];
  if (cause === undefined) return <p class="verdict">There is nothing to explain.</p>;
  return (
    <>
      <p class="headline">
        {titleOf(cause.cause, explained.rss)}
        <span class="pm">{share(cause.bytes.value, explained.rss.bytes)} of RSS</span>
      </p>
      <p>{cause.sentence}</p>
    </>
  );
}
