// RSS in parts that add up to it.
import { Heading } from "../../parts/figures";
import { Link } from "../../parts/link";
import { Skeleton } from "../../parts/notice";
import { terms, termsOf } from "../../parts/rss";
import type { Point } from "../../state/series";
import type { Rss, SourceEntry } from "../../types";
import { absolute, bytes, clock, relative, share } from "../../units";

interface Of {
  rss: Rss | null;
  entry: SourceEntry;
  points: Point[];
  /** The moment of the history that is shown; `null`: now, or the end. */
  atNs: number | null;
}

/** Of the past, and of a process that is gone, as a history has its parts. */
export function RssBar({ rss, entry, points, atNs }: Of) {
  const last = points.filter((point) => point.parts !== null && (atNs === null || point.unix_ns <= atNs)).at(-1);
  if (rss === null && entry.is_running && atNs === null) return <Skeleton height={92} />;
  if (rss === null && (last === undefined || entry.pid === null)) return null;
  const shown = rss === null ? termsOf(last!.parts!) : terms(rss);
  const whole = rss?.bytes ?? last!.rss ?? 0;
  return (
    <section>
      <Heading title={`RSS ${bytes(whole)}`} says={rss === null ? `at ${clock(last!.unix_ns)}, as recorded; parts that add up` : "what the kernel counts as resident, in parts that add up"}>
        {rss === null ? <Link to="timeline">Timeline</Link> : <Link to="allocator">Allocator</Link>}
      </Heading>
      <div class="rss-bar" role="img" aria-label={`RSS in parts: ${shown.map((term) => `${term.name} ${share(term.of.value, whole)}`).join(", ")}`}>
        {shown
          .filter((term) => (term.of.value ?? 0) > 0)
          .map((term) => (
            <div key={term.name} class={`c-${term.kind}`} style={{ flex: `${term.of.value ?? 0} 0 2px` }}>
              {term.kind === "live" && (term.of.value ?? 0) > 0.2 * whole ? `live ${share(term.of.value, whole)}` : ""}
            </div>
          ))}
      </div>
      <ul class="terms">
        {shown.map((term) => (
          <li key={term.name}>
            <div class="name">
              <span class={`swatch c-${term.kind}`} aria-hidden="true" />
              {term.name} <span class="dim">{share(term.of.value, whole)}</span>
            </div>
            <div class="what">
              {bytes(term.of.value)} <span class="pm">{term.kind === "other" ? absolute(term.of) : relative(term.of)}</span>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}
