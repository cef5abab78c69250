// Several profiles, none of which is chosen yet.
import { Figure } from "../../parts/figures";
import { Dot } from "../../parts/header";
import { followed } from "../../parts/link";
import { Notice } from "../../parts/notice";
import { hrefOf, place } from "../../state/route";
import type { Sources } from "../../types";
import { bytes } from "../../units";

export function Processes({ of }: { of: Sources }) {
  const running = of.sources.filter((entry) => entry.is_running);
  const rss = running.reduce((sum, entry) => sum + (entry.rss ?? 0), 0);
  if (of.sources.length === 0) {
    return (
      <>
        <Notice fact="No profiles here yet." command="ramson run -- COMMAND">
          Start a program under ramson, and it appears here:
        </Notice>
        <Unreadable of={of} />
      </>
    );
  }
  return (
    <>
      <div class="subject">
        <h1>{of.sources.length} profiles</h1>
        <span class="quiet">
          {running.length} running, RSS {bytes(rss)}; shared pages count once per process
        </span>
      </div>
      <section>
        <table>
          <thead>
            <tr>
              <th scope="col">program</th>
              <th scope="col" class="hide-m">
                arguments
              </th>
              <th scope="col" class="n hide-s">
                pid
              </th>
              <th scope="col" class="hide-s">
                state
              </th>
              <th scope="col" class="n">
                RSS
              </th>
              <th scope="col" class="n">
                live
              </th>
            </tr>
          </thead>
          <tbody>
            {of.sources.map((entry) => (
              <tr key={entry.id}>
                <td>
                  <Dot of={entry} />{" "}
                  <a href={hrefOf(place.value.screen, { id: entry.id })} onClick={followed(place.value.screen, { id: entry.id })}>
                    {entry.name}
                  </a>
                </td>
                <td class="hide-m dim">{entry.command.slice(1).join(" ")}</td>
                <td class="n hide-s">{entry.pid ?? ""}</td>
                <td class="hide-s">{entry.state ?? "file"}</td>
                <td class="n">{bytes(entry.rss)}</td>
                <td class="n">{entry.live === null ? "–" : <Figure of={entry.live} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <Unreadable of={of} />
    </>
  );
}

function Unreadable({ of }: { of: Sources }) {
  return (
    <section>
      {of.unreadable.map((line) => (
        <p class="dim" key={line}>
          {line}
        </p>
      ))}
    </section>
  );
}
