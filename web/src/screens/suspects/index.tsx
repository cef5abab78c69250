// Is it a leak: what grows without bound, what needs more data, what looks like a cache, and what is none.
import { useCallback } from "preact/hooks";
import { AgeBars } from "../../parts/ages";
import { Canvas, colour, type Painted } from "../../parts/canvas";
import { Change, Figure, Heading, Name } from "../../parts/figures";
import { Link } from "../../parts/link";
import { Lacks } from "../../parts/lacks";
import { limitOf } from "../../parts/limit";
import { copy, Notice, Skeleton, Trouble } from "../../parts/notice";
import { verdictPill } from "../../parts/verdict";
import { suspectCount } from "../../state/found";
import { useDocument } from "../../state/documents";
import { moment, pathOf } from "../../state/paths";
import { param } from "../../state/route";
import type { Group, Leaks, SourceEntry, Suspect } from "../../types";
import { absolute, base, timeOfDay, count, duration, estimated, isNoise, relative, share, shortName, signed } from "../../units";
import { matcher } from "../flame";

const CARDS = 20;
/** Least share of live bytes; a suspect below it that does not grow has no card. */
const LEAST_SHARE = 0.02;

export function Suspects({ entry }: { entry: SourceEntry }) {
  const loaded = useDocument<Leaks>(entry.pid === null ? null : pathOf(entry, "leaks", { at: moment() }), "leaks");
  if (entry.pid === null) {
    return (
    <>
      <h1 class="hidden-label">Suspects</h1>
      <Notice fact="Not in this file:">it does not say when each block was allocated, so nothing can be said about growth.</Notice>
    </>
  );
  }
  const leaks = loaded.value;
  if (leaks === null) return loaded.failed === null ? <Skeleton height={400} /> : <Trouble failed={loaded.failed} />;
  suspectCount.value = leaks.answer.leak_suspects;
  const text = matcher(param("f"));
  const all = leaks.suspects.filter((one) => text === null || text.test(one.function) || text.test(one.file));
  const isCard = (one: Suspect) => one.verdict === "growing" || ((one.verdict === "plateau" || one.verdict === "not-enough-data") && one.share >= LEAST_SHARE);
  const cards = all.filter(isCard);
  const undecided = all.filter((one) => one.verdict === "not-enough-data" && !isCard(one));
  const others = all.filter((one) => one.verdict !== "not-enough-data" && !isCard(one));
  return (
    <>
      <div class="subject">
        <h1>Suspects</h1>
        <span class="quiet">
          {leaks.answer.leak_suspects === 0 ? `No leak found. ${limitOf(leaks)} ` : ""}
          {leaks.answer.findings} functions, {leaks.stacks} stacks, ranked by growth. Whether it is a leak is for you to say.
        </span>
      </div>
      <Lacks defects={leaks.defects} entry={entry} />
      {grouped(leaks, cards).slice(0, CARDS).map(({ group, members }) =>
        group === null ? (
          members.map((one) => <Card key={one.function + one.file + one.stacks} of={one} number={cards.indexOf(one) + 1} entry={entry} />)
        ) : (
          <section key={`below ${group.function}`} class="together" aria-label={`Together below ${group.function}`}>
            <Heading title={`${count(members.length)} suspects grow together`} says="with one caller in common: they may be one leak" />
            <p>
              <Name of={group} />{" "}
              <b>
                <Change of={group.growth_per_hour} />
                /h
              </b>
              <span class="quiet">
                {" · "}
                <Figure of={group.inuse_space} /> live
                {group.growing_since_unix_ns === null ? "" : ` · growing since ${timeOfDay(group.growing_since_unix_ns)}`}
              </span>
            </p>
            {members.map((one) => (
              <Card key={one.function + one.file + one.stacks} of={one} number={cards.indexOf(one) + 1} entry={entry} />
            ))}
          </section>
        ),
      )}
      {undecided.length === 0 ? null : <Others title="Not enough data yet" of={undecided} />}
      {others.length === 0 ? null : <Others title="Not suspects" of={others} />}
    </>
  );
}

/** Cards in their order; those of a group together, where its first one is. */
function grouped(leaks: Leaks, cards: Suspect[]): { group: Group | null; members: Suspect[] }[] {
  const groupOf = new Map<Suspect, Group>();
  for (const group of leaks.groups) for (const place of group.suspects) groupOf.set(leaks.suspects[place]!, group);
  const done = new Set<Group>();
  return cards.flatMap((card) => {
    const group = groupOf.get(card);
    if (group === undefined) return [{ group: null, members: [card] }];
    if (done.has(group)) return [];
    done.add(group);
    const members = cards.filter((one) => groupOf.get(one) === group);
    return [{ group: members.length > 1 ? group : null, members }];
  });
}

function asText(of: Suspect): string {
  const frames = of.frames.map((frame) => `  ${shortName(frame.function)}${frame.file === "" ? "" : ` ${frame.file}:${frame.line}`}`);
  const growth = of.growth ? `, growing by ${signed(of.growth.bytes_per_hour)}/h (${absolute(of.growth.bytes_per_hour)})` : "";
  return [`${of.function}: live ${estimated(of.inuse_space)} (${relative(of.inuse_space)})${growth}`, of.reason, ...frames].join("\n");
}

function Card({ of, number, entry }: { of: Suspect; number: number; entry: SourceEntry }) {
  const lines = of.lines.filter((line) => line.line > 0).map((line) => line.line);
  const place = [
    of.file === "" ? "" : base(of.file),
    `${of.stacks} stack${of.stacks === 1 ? "" : "s"}`,
    lines.length === 0 ? "" : `line${lines.length === 1 ? "" : "s"} ${[...lines].sort((a, b) => a - b).slice(0, 8).join(", ")}`,
  ];
  const later = of.judged_in_ns !== null && entry.is_running ? ` It can be judged in about ${duration(of.judged_in_ns)}.` : "";
  return (
    <article class="card suspect" aria-label={of.function}>
      <div>
        <p>
          <span class="dim">{number}</span> {verdictPill(of.verdict)}
        </p>
        <h2>
          <Name of={of} hasPlace={false} />
        </h2>
        <p class="dim">{place.filter((part) => part !== "").join(" · ")}</p>
        <p class="quiet">
          {of.reason}
          {later}
        </p>
        <div class="links">
          <Link to="flame" params={{ n: of.function, p: "" }}>
            Sandwich
          </Link>
          {of.file === "" ? null : (
            <Link to="source" params={{ src: of.file }}>
              Source
            </Link>
          )}
          <button type="button" onClick={() => void copy(asText(of))}>
            Copy as text
          </button>
          <button type="button" onClick={() => void copy(`leak:${shortName(of.function)}`)}>
            Copy suppression
          </button>
        </div>
      </div>
      <div>
        <h3>live, and growth per hour</h3>
        <p class="figure">
          <Figure of={of.inuse_space} />
        </p>
        <p>{of.growth === null ? <span class="dim">growth is not known yet</span> : <Change of={of.growth.bytes_per_hour} />}</p>
        <p class="dim">
          {share(of.share, 1)} of live · {count(of.inuse_objects.value)} objects · {count(of.samples)} samples
        </p>
        {of.first_seen_unix_ns === null ? null : <p class="dim">first seen at {timeOfDay(of.first_seen_unix_ns)}</p>}
      </div>
      <div>
        <h3>age of live bytes</h3>
        {of.ages === null ? <p class="dim">not known</p> : <AgeBars of={of.ages} />}
      </div>
      <div>
        <h3>share never freed</h3>
        {of.survival === null ? <p class="dim">not known</p> : <Survival of={of.survival} />}
      </div>
    </article>
  );
}

function Survival({ of }: { of: NonNullable<Suspect["survival"]> }) {
  const curve = of.curve;
  const paint = useCallback(
    ({ context, width, height }: Painted) => {
      const low = height - 1;
      context.fillStyle = colour("line2");
      context.fillRect(0, low, width, 1);
      const y = (part: number) => 2 + (1 - part) * (height - 4);
      context.fillStyle = colour("accent-tint");
      context.fillRect(width * 0.82, y(of.interval_95[1]), width * 0.18, Math.max(2, y(of.interval_95[0]) - y(of.interval_95[1])));
      context.strokeStyle = colour("live");
      context.lineWidth = 2;
      context.beginPath();
      let before = y(1);
      curve.forEach((point, index) => {
        const x = (index / Math.max(1, curve.length - 1)) * width;
        if (index === 0) context.moveTo(x, before);
        context.lineTo(x, before);
        before = y(point.share);
        context.lineTo(x, before);
      });
      context.stroke();
    },
    [curve, of.interval_95[0], of.interval_95[1]],
  );
  const [low, high] = of.interval_95;
  return (
    <>
      <p class="figure">
        {share(of.never_freed, 1)}{" "}
        <span class="pm">
          {share(low, 1)} to {share(high, 1)}
        </span>
      </p>
      <Canvas height={56} paint={paint} label={`Of what is allocated, ${share(of.never_freed, 1)} is never freed, ${share(low, 1)} to ${share(high, 1)}`} />
      <div class="ends">
        <span>{curve[0] ? duration(curve[0].age_ns) : ""}</span>
        <span>{curve.length > 0 ? `${duration(curve.at(-1)!.age_ns)} old` : ""}</span>
      </div>
    </>
  );
}

function Others({ title, of }: { title: string; of: Suspect[] }) {
  return (
    <section>
      <Heading title={title} says="and why" />
      <table>
        <thead>
          <tr>
            <th scope="col">function</th>
            <th scope="col" class="n" style={{ width: "90px" }}>
              live
            </th>
            <th scope="col" class="n" style={{ width: "70px" }}>
              ±
            </th>
            <th scope="col" class="hide-s">
              why
            </th>
          </tr>
        </thead>
        <tbody>
          {of.slice(0, 60).map((one) => (
            <tr key={one.function + one.file} class={isNoise(one.inuse_space) ? "noise" : ""}>
              <td>
                <Name of={one} />
                <p class="only-s quiet">{one.reason}</p>
              </td>
              <td class="n">{estimated(one.inuse_space)}</td>
              <td class="n pm">{relative(one.inuse_space)}</td>
              <td class="hide-s quiet" title={one.reason}>
                {one.reason}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
