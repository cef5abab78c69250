// Events: marks, and steps of RSS that live does not follow.
import { Heading } from "../../parts/figures";
import type { Point } from "../../state/series";
import { change } from "../../state/route";
import type { Step } from "../../types";
import { bytes, clock } from "../../units";
import { nearest } from ".";

interface Marker {
  unix_ns: number;
  says: preact.ComponentChildren;
}

export function Markers({ points, marks, steps }: { points: Point[]; marks: { name: string; unix_ns: number }[]; steps: Step[] }) {
  const last = points.at(-1)!.unix_ns;
  const ofMarks: Marker[] = marks.map(({ name, unix_ns }) => ({
    unix_ns,
    says: (
      <>
        <b>{name}</b>{" "}
        {unix_ns < last ? (
          <button type="button" class="link" onClick={() => change({ a: `${Math.round((last - unix_ns) / 1e9)}-0` })}>
            since then
          </button>
        ) : null}
      </>
    ),
  }));
  const ofSteps: Marker[] = steps.map((step) => ({
    unix_ns: step.to_unix_ns,
    says: (
      <>
        <span class={step.rss > 0 ? "up" : "down"}>{step.rss > 0 ? "▲" : "▼"}</span> {step.sentence}
      </>
    ),
  }));
  const all = [...ofMarks, ...ofSteps].sort((x, y) => x.unix_ns - y.unix_ns);
  return (
    <section>
      <Heading title="Markers" says={all.length === 0 ? "none" : "marks, and the largest steps of RSS that live does not follow"} />
      {all.length === 0 ? null : (
        <table class="prose">
          <thead>
            <tr>
              <th scope="col" style={{ width: "72px" }}>
                time
              </th>
              <th scope="col">what</th>
              <th scope="col" class="n" style={{ width: "84px" }}>
                RSS then
              </th>
            </tr>
          </thead>
          <tbody>
            {all.map(({ unix_ns, says }) => (
              <tr key={unix_ns}>
                <td>{clock(unix_ns)}</td>
                <td>{says}</td>
                <td class="n">{bytes(nearest(points, unix_ns).rss)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
