// The processes of a SRC that names several, the largest first.
import { Heading, Under } from "../../parts/figures";
import { followed } from "../../parts/link";
import { Skeleton } from "../../parts/notice";
import { sources } from "../../state/live";
import { hrefOf } from "../../state/route";
import type { Member } from "../../types";
import { base, bytes, estimated, relative } from "../../units";

const MOST = 20;

export function Members({ of, all }: { of: Member[] | null; all: number }) {
  if (of === null) return <Skeleton height={240} />;
  const size = (one: Member) => one.rss?.bytes ?? 0;
  const sorted = [...of].sort((a, b) => size(b) - size(a));
  const rest = sorted.slice(MOST);
  const most = size(sorted[0] ?? ({ rss: null } as Member));
  return (
    <section>
      <Heading title="Processes" says={`${all}, largest first`} />
      <table>
        <thead>
          <tr>
            <th scope="col">process</th>
            <th scope="col" class="n" style={{ width: "84px" }}>
              RSS
            </th>
            <th scope="col" class="n" style={{ width: "84px" }}>
              live
            </th>
            <th scope="col" class="n hide-s" style={{ width: "64px" }}>
              ±
            </th>
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, MOST).map((one) => (
            <tr key={one.pid}>
              <td>
                <Who of={one} />
                <Under share={most > 0 ? size(one) / most : 0} isLeft />
              </td>
              <td class="n">{bytes(one.rss?.bytes)}</td>
              <td class="n">{estimated(one.live)}</td>
              <td class="n hide-s pm">{one.live === null || one.live.value === 0 ? "" : relative(one.live)}</td>
            </tr>
          ))}
          {rest.length === 0 ? null : (
            <tr>
              <td class="dim">{rest.length} more</td>
              <td class="n">{bytes(rest.reduce((sum, one) => sum + size(one), 0))}</td>
              <td class="n">{bytes(rest.reduce((sum, one) => sum + (one.live?.value ?? 0), 0))}</td>
              <td class="hide-s" />
            </tr>
          )}
        </tbody>
      </table>
    </section>
  );
}

/** Programs write into their command lines what they do. */
function Who({ of }: { of: Member }) {
  const entry = sources.value?.sources.find((one) => one.pid === of.pid && one.is_running === of.is_running);
  const [first = "", ...others] = of.command_line;
  const says = others.length === 0 && first.includes(" ") ? first : others.join(" ");
  return (
    <span class="name" title={of.command_line.join(" ")}>
      {entry === undefined ? <b>{base(of.name)}</b> : <a href={hrefOf("overview", { id: entry.id })} onClick={followed("overview", { id: entry.id })}>{base(of.name)}</a>} {of.pid}{" "}
      <span class="place">{says}</span>
    </span>
  );
}
