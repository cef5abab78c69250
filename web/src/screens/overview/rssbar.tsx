// RSS in parts that add up to it.
import { Heading } from "../../parts/figures";
import { Link } from "../../parts/link";
import { Skeleton } from "../../parts/notice";
import type { Whole } from "../../parts/rss";
import { absolute, bytes, timeOfDay, estimated, relative, share } from "../../units";

/** `isComing`: it is being read. */
export function RssBar({ of, isComing }: { of: Whole | null; isComing: boolean }) {
  if (of === null) return isComing ? <Skeleton height={92} /> : null;
  const { bytes: whole, terms: shown, unix_ns: ns } = of;
  return (
    <section>
      <Heading title={`RSS ${bytes(whole)}`} says={ns === null ? "what the kernel counts as resident, in parts that add up" : `at ${timeOfDay(ns)}, as recorded; parts that add up`}>
        {ns === null ? <Link to="allocator">Allocator</Link> : <Link to="timeline">Timeline</Link>}
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
              {estimated(term.of)} <span class="pm">{term.kind === "other" ? absolute(term.of) : relative(term.of)}</span>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}
