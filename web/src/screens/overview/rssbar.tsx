// RSS in parts that add up to it.
import { Heading } from "../../parts/figures";
import { Link } from "../../parts/link";
import { Skeleton } from "../../parts/notice";
import { terms } from "../../parts/rss";
import type { Rss, SourceEntry } from "../../types";
import { absolute, bytes, relative, share } from "../../units";

export function RssBar({ rss, entry }: { rss: Rss | null; entry: SourceEntry }) {
  if (rss === null) return entry.is_running ? <Skeleton height={92} /> : null;
  const shown = terms(rss);
  return (
    <section>
      <Heading title={`RSS ${bytes(rss.bytes)}`} says="what the kernel counts as resident, in parts that add up">
        <Link to="allocator">Allocator</Link>
      </Heading>
      <div class="rss-bar" role="img" aria-label={`RSS in parts: ${shown.map((term) => `${term.name} ${share(term.of.value, rss.bytes)}`).join(", ")}`}>
        {shown
          .filter((term) => (term.of.value ?? 0) > 0)
          .map((term) => (
            <div key={term.name} class={`c-${term.kind}`} style={{ flex: `${term.of.value ?? 0} 0 2px` }}>
              {term.kind === "live" && (term.of.value ?? 0) > 0.2 * rss.bytes ? `live ${share(term.of.value, rss.bytes)}` : ""}
            </div>
          ))}
      </div>
      <ul class="terms">
        {shown.map((term) => (
          <li key={term.name}>
            <div class="name">
              <span class={`swatch c-${term.kind}`} aria-hidden="true" />
              {term.name} <span class="dim">{share(term.of.value, rss.bytes)}</span>
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
