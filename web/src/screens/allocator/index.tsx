// Why it is not coming back: the allocator's own count, what a trim returns, what pins the rest, and what to do.
import type { ComponentChildren } from "preact";
import { capital, Heading } from "../../parts/figures";
import { Link } from "../../parts/link";
import { releasableOf } from "../../parts/rss";
import { CommandLine, Notice, Skeleton, Trouble } from "../../parts/notice";
import { useDocument } from "../../state/documents";
import { saved } from "../../state/offline";
import { sources } from "../../state/live";
import { pathOf } from "../../state/paths";
import type { Advice, Explained, SourceEntry } from "../../types";
import { absolute, bytes, count, duration, estimated, relative, share } from "../../units";
import { Collections } from "./collections";
import { HeapMap } from "./map";
import { TrimButton, TrimDialog, TrimOutcome, useTrim } from "./trim";

export function Allocator({ entry }: { entry: SourceEntry }) {
  const isThere = entry.is_running || (saved !== null && entry.pid !== null);
  const loaded = useDocument<Explained>(isThere ? pathOf(entry, "explain") : null, "explain");
  const trim = useTrim(entry);
  if (entry.pid === null) return <Notice fact="Not in this file:">it holds nothing of the process or its allocator.</Notice>;
  if (!isThere) {
    return <Notice fact="The process is gone,">and with it its allocator. What the profile has of it is on the other screens.</Notice>;
  }
  const explained = loaded.value;
  if (explained === null) return loaded.failed === null ? <Skeleton height={400} /> : <Trouble failed={loaded.failed} />;
  const { rss } = explained;
  const free = rss.terms["free_in_allocator"] ?? { value: 0, half_width_95: 0 };
  const releasable = explained.statistics === null ? { value: 0, half_width_95: 0 } : releasableOf(explained.statistics);
  const held = rss.terms["held_by_allocator"]?.value ?? 0;
  const kept = Math.max(0, (free.value ?? 0) - (releasable.value ?? 0));
  const isGlibc = explained.allocators.glibc !== null && explained.statistics !== null;
  const name = explained.allocators.glibc?.name ?? rss.allocator;
  const mayTrim = entry.is_running && sources.value?.allows_actions === true;
  return (
    <>
      <TrimOutcome of={trim} />
      <TrimDialog of={trim} entry={entry} prediction={isGlibc ? releasable : null} />
      <div class="answers two-one">
        <div>
          <h2>Why isn’t it coming back?</h2>
          {explained.causes.map((cause, index) => (
            <p key={cause.cause} class={index === 0 ? "verdict" : ""}>
              {cause.sentence}
            </p>
          ))}
        </div>
        <div>
          <h2>a trim returns now</h2>
          <p class="headline">
            {isGlibc ? estimated(releasable) : "–"}
            {isGlibc ? <span class="pm">{absolute(releasable)}</span> : null}
          </p>
          <p>{isGlibc ? `whole free pages and the free end of the heap; ${share(releasable.value, rss.bytes)} of RSS` : "not known in advance"}</p>
          {mayTrim ? <TrimButton of={trim} /> : null}
        </div>
        {isGlibc ? (
          <div>
            <h2>a trim does not return</h2>
            <p class="headline">{bytes(kept)}</p>
            <p>free, but on pages that still hold live blocks, in a thread’s cache or at the heap’s end</p>
          </div>
        ) : (
          <div>
            <h2>held by {rss.allocator}</h2>
            <p class="headline">{held > 0 ? bytes(held) : "–"}</p>
            <p>
              {held === 0 ? "" : rss.may_hold_live ? "allocated before the attach, or free. " : "beyond the live blocks: free, metadata and rounding. "}
              {explained.statistics_missing ?? ""}
            </p>
          </div>
        )}
      </div>
      {(rss.terms["go_heap"]?.value ?? 0) > 0 ? <Collections entry={entry} /> : null}
      {explained.statistics !== null && explained.statistics.map.length > 0 ? <HeapMap of={explained.statistics.map} arenas={explained.statistics.arenas} /> : null}
      <div class="columns">
        <section>
          <Heading title="What to do" says="best first, with predicted bytes" />
          {explained.advice.filter((advice) => advice.needs === "nothing").map((advice) => (
            <p key={advice.action}>{capital(advice.action)}.</p>
          ))}
          <ol class="steps">
            {explained.advice.filter((advice) => advice.needs !== "nothing").map((advice, index) => (
              <Step key={advice.action} of={advice} rank={index + 1} rss={rss.bytes}>
                {mayTrim && /: ramson trim /.test(advice.action) ? <TrimButton of={trim} /> : null}
              </Step>
            ))}
          </ol>
        </section>
        <div>
          {explained.pins === null || explained.pins.sites.length === 0 ? null : <Pins of={explained.pins} />}
          {explained.statistics === null ? null : (
            <section>
              <Heading title="Arenas" says={name} />
              <table>
                <thead>
                  <tr>
                    <th scope="col">arena</th>
                    <th scope="col" class="n">
                      taken
                    </th>
                    <th scope="col" class="n">
                      in use
                    </th>
                    <th scope="col" class="n">
                      free
                    </th>
                    <th scope="col" class="n">
                      trim returns
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {explained.statistics.arenas.slice(0, 40).map((arena, index) => (
                    <tr key={index}>
                      <td>{arena.is_main ? "main" : `arena ${index}`}</td>
                      <td class="n">{bytes(arena.system_bytes)}</td>
                      <td class="n">{bytes(arena.in_use.bytes)}</td>
                      <td class="n">{bytes(arena.free_bytes)}</td>
                      <td class="n">{bytes(arena.releasable_bytes)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </section>
          )}
        </div>
      </div>
    </>
  );
}

/** A command at the end of a sentence is to be copied; the rest is to be read. */
function Step({ of, rank, rss, children }: { of: Advice; rank: number; rss: number; children?: ComponentChildren }) {
  const found = /^(.*?):? (ramson [a-z]+ [^;]+)(?:; (.*))?$/.exec(of.action);
  const [says, command, also] = found ? [found[1]!, found[2]!, found[3] ?? ""] : [of.action, null, ""];
  const halfWidth = of.saving?.half_width_95 ?? 0;
  const isSmall = of.saving !== null && of.saving.bytes <= halfWidth;
  return (
    <li class={isSmall ? "noise" : ""}>
      <span class="rank">{rank}</span>
      <div>
        <p>
          <b>{capital(says)}</b>
        </p>
        <p class="quiet">{of.evidence}.</p>
        {of.risk === "none" ? null : <p class="dim">Risk: {of.risk}.</p>}
        {of.cause === "leaks" || of.cause === "growing" ? <Link to="suspects">Suspects</Link> : null}
        {children}
        {command === null ? null : <CommandLine text={command} />}
        {also === "" ? null : <p class="quiet">{capital(also)}</p>}
      </div>
      <div class="saves">
        {of.saving === null ? (
          <span class="dim">depends</span>
        ) : (
          <>
            <b>{bytes(of.saving.bytes)}</b>
            <span class="pm">
              {halfWidth > 0 ? `±${bytes(halfWidth)}` : ""}
              {of.saving.is_at_most ? " at most" : ""}
            </span>
            <br />
            <span class="dim">{share(of.saving.bytes, rss)}</span>
          </>
        )}
      </div>
    </li>
  );
}

function Pins({ of }: { of: NonNullable<Explained["pins"]> }) {
  return (
    <section>
      <Heading title="What pins free memory" says={`${bytes(of.arenas_bytes)} shares pages with live blocks, of these call sites`} />
      <table>
        <thead>
          <tr>
            <th scope="col" class="n" style={{ width: "80px" }}>
              pinned
            </th>
            <th scope="col" class="n" style={{ width: "70px" }}>
              ±
            </th>
            <th scope="col" class="n hide-s" style={{ width: "80px" }}>
              live
            </th>
            <th scope="col" class="n hide-s" style={{ width: "74px" }}>
              age p50
            </th>
            <th scope="col">by</th>
          </tr>
        </thead>
        <tbody>
          {of.sites.slice(0, 12).map((site) => {
            const by = site.frames.slice(0, 2).join(" ← ");
            return (
              <tr key={site.frames.join()}>
                <td class="n">
                  <b>{estimated(site.pinned)}</b>
                </td>
                <td class="n pm">{relative(site.pinned)}</td>
                <td class="n hide-s">{estimated(site.live)}</td>
                <td class="n hide-s">{site.median_age_ns === null ? "–" : duration(site.median_age_ns)}</td>
                <td title={`${site.frames.join("\n")}\n${count(site.samples)} samples`}>{by}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}
