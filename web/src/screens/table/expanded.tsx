// The stacks of a function, own frames with their lines.
import { AgeBars } from "../../parts/ages";
import { useDocument } from "../../state/documents";
import { literally, moment, pathOf, sample } from "../../state/paths";
import type { Estimate, SourceEntry, Stacks, TopRow, Unit } from "../../types";
import { amount, base, count, duration, estimated, relative, share, shortName } from "../../units";

const MOST = 8;

export function Expanded({ entry, row, unit, total }: { entry: SourceEntry; row: TopRow; unit: Unit; total: Estimate }) {
  const words = { view: "stacks", rows: 60, focus: `^${literally(row.function)}$`, "count": sample(), at: moment() };
  const isNamed = !/\+0x[0-9a-f]+$/.test(row.function);
  const loaded = useDocument<Stacks>(isNamed ? pathOf(entry, "report", words) : null, `stacks ${row.function}`);
  if (loaded.failed !== null || loaded.value === null) {
    return (
      <tr>
        <td class="stack dim">{isNamed ? (loaded.failed?.message ?? "Reading its stacks …") : "Its stacks cannot be looked up, because it has no name; see the flame graph."}</td>
      </tr>
    );
  }
  // Those that end in the function itself; a focus keeps those that only pass through it, too.
  const own = loaded.value.rows.filter((stack) => stack.frames[0]?.function === row.function);
  const stacks = own.length > 0 ? own : loaded.value.rows;
  const hidden = stacks.slice(MOST);
  const callersOf = (at: number) => stacks[at]!.frames.slice(1).map((frame) => `${frame.function}:${frame.line}`).join("\n");
  return (
    <>
      {stacks.slice(0, MOST).map((stack, at) => {
        const isSame = at > 0 && stack.frames.length > 2 && callersOf(at) === callersOf(at - 1);
        const frames = isSame ? stack.frames.slice(0, 1) : stack.frames;
        return (
          <tr key={at}>
            <td class="stack">
              <ol>
                {frames.map((frame, depth) => (
                  <li key={depth}>
                    <span title={frame.function}>{shortName(frame.function)}</span>
                    <span class="dim">{frame.file === "" ? "" : `${base(frame.file)}${frame.line > 0 ? `:${frame.line}` : ""}`}</span>
                  </li>
                ))}
                {isSame ? <li class="dim">(the same {stack.frames.length - 1} callers)</li> : null}
              </ol>
            </td>
            <td class="n top">{estimated(stack.value, unit)}</td>
            <td class="n top hide-s">{share(stack.value.value, total.value)}</td>
            <td class="n top pm">{relative(stack.value)}</td>
            <td class="hide-m" />
            <td class="hide-m" />
            <td class="n top hide-m">{count(stack.objects.value)}</td>
            <td class="n top hide-m">{stack.ages ? duration(stack.ages.p50_ns) : ""}</td>
            <td class="top hide-m">{stack.ages && stack.ages.histogram.length > 0 ? <AgeBars of={stack.ages} height={22} isBare /> : null}</td>
            <td class="hide-l" />
          </tr>
        );
      })}
      {hidden.length === 0 ? null : (
        <tr>
          <td class="stack dim">{hidden.length} more stacks</td>
          <td class="n dim">{amount(hidden.reduce((sum, stack) => sum + (stack.value.value ?? 0), 0), unit)}</td>
        </tr>
      )}
    </>
  );
}
