// Three sentences, and the screen that has the evidence for each.
import { Link } from "../../parts/link";
import type { Doctor, Leaks, SourceEntry, Suspect, Top } from "../../types";
import { absolute, amount, bytes, clock, duration, relative, share, shortName } from "../../units";

interface Of {
  top: Top;
  leaks: Leaks | null;
  doctor: Doctor | null;
  entry: SourceEntry;
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
        <Link to="timeline">Timeline</Link>
      </div>
      <div>
        <h2>Why isn’t it coming back?</h2>
        <Why {...of} />
        <Link to={of.leaks && of.leaks.answer.leak_suspects > 0 ? "suspects" : "allocator"}>Evidence</Link>
      </div>
    </div>
  );
}

/** The function whose callees hold most without being the program's outermost ones: the deepest with more than half. */
function largest(top: Top) {
  const total = top.total.value ?? 0;
  return [...top.rows].sort((a, b) => (b.flat.value ?? 0) - (a.flat.value ?? 0)).find((row) => (row.flat.value ?? 0) > 0 && total > 0);
}

function What({ top, doctor }: Of) {
  const rss = doctor?.rss ?? top.rss ?? null;
  const row = largest(top);
  const isLive = top.sample_type.startsWith("inuse");
  return (
    <>
      <p class="headline">
        {amount(top.total.value, top.unit)} {isLive ? "live" : "allocated"}
        <span class="pm">
          {relative(top.total)}
          {rss === null ? "" : ` · ${share(top.total.value, rss.bytes)} of RSS`}
        </span>
      </p>
      {row === undefined ? (
        <p>No function has any.</p>
      ) : (
        <p>
          <code>{shortName(row.function)}</code> holds <b>{amount(row.flat.value, top.unit)}</b> <span class="pm">{relative(row.flat)}</span>, {share(row.flat.value, top.total.value)} of it.
        </p>
      )}
    </>
  );
}

function oldest(suspects: Suspect[]): number | null {
  const since = suspects.filter((one) => one.verdict === "growing").map((one) => one.growing_since_unix_ns);
  const known = since.filter((ns): ns is number => ns !== null);
  return known.length === 0 ? null : Math.min(...known);
}

function When({ leaks, doctor, entry }: Of) {
  if (entry.pid === null) return <p class="verdict">The file does not say: it is one moment of a process.</p>;
  if (leaks === null) return <p class="dim">Looking at the ages of what is live …</p>;
  const { answer } = leaks;
  if (answer.leak_suspects > 0) {
    const since = oldest(leaks.suspects);
    const limit = doctor?.limit;
    const perHour = answer.growth_per_hour.value ?? 0;
    const room = limit ? limit.limit_bytes - limit.used_bytes : 0;
    const first = leaks.suspects.find((one) => one.verdict === "growing");
    return (
      <>
        <p class="headline">
          {since === null ? "Growing" : clock(since)}
          {first?.growing_for_ns ? <span class="pm">for {duration(first.growing_for_ns)}</span> : null}
        </p>
        <p>
          Growing by <b class="up">+{bytes(perHour)}/h</b> <span class="pm">{absolute(answer.growth_per_hour)}</span>, in {answer.leak_suspects} function{answer.leak_suspects === 1 ? "" : "s"}.
          {limit && perHour > 0 && entry.is_running ? (
            <>
              {" "}
              The limit of {bytes(limit.limit_bytes)} is <b>{duration((room / perHour) * 3.6e12)}</b> away.
            </>
          ) : null}
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
          {answer.judged_in_ns === null || !entry.is_running ? "" : `; the largest in about ${duration(answer.judged_in_ns)}`}.
        </p>
      </>
    );
  }
  const old = leaks.suspects.find((one) => one.first_seen_unix_ns !== null);
  return (
    <>
      <p class="headline">Nothing grows</p>
      <p>
        Of {answer.findings} functions judged, none grows without bound.
        {old?.first_seen_unix_ns ? ` The largest was first seen at ${clock(old.first_seen_unix_ns)}.` : ""}
      </p>
    </>
  );
}

const TITLES: Record<string, string> = {
  live: "It is still in use",
  growing: "It is kept, and grows",
  held: "The allocator holds it",
  files: "It is files",
};

function Why({ doctor, entry, leaks }: Of) {
  if (entry.pid === null) return <p class="verdict">The file holds nothing of the allocator.</p>;
  if (!entry.is_running) {
    return <p class="verdict">The process is gone, and its memory with it. {leaks && leaks.answer.leak_suspects > 0 ? "What grew until then is in Suspects." : ""}</p>;
  }
  if (doctor === null) return <p class="dim">Reading the allocator’s own figures …</p>;
  const cause = doctor.causes[0];
  if (cause === undefined) return <p class="verdict">There is nothing to explain.</p>;
  return (
    <>
      <p class="headline">
        {TITLES[cause.cause] ?? "It is free, and not returned"}
        <span class="pm">{share(cause.bytes.value, doctor.rss.bytes)} of RSS</span>
      </p>
      <p>{cause.sentence}</p>
    </>
  );
}
