// Callers and callees of the selected function.
import { AgeBars } from "../../parts/ages";
import { Name, Under } from "../../parts/figures";
import { Trouble } from "../../parts/notice";
import { useDocument } from "../../state/documents";
import { literally, moment, pathOf, sample } from "../../state/paths";
import { change, go } from "../../state/route";
import type { Ages, Estimate, FrameName, Peek, SourceEntry, TopRow, Unit } from "../../types";
import { estimated, relative, share } from "../../units";

const MOST = 12;

export function Side({ entry, row, unit, total, ages }: { entry: SourceEntry; row: TopRow; unit: Unit; total: Estimate; ages: Ages | null }) {
  const view = `peek ^${literally(row.function)}$`;
  const loaded = useDocument<Peek>(pathOf(entry, "report", { view, "count": sample(), at: moment() }), "peek");
  const found = loaded.value?.functions.find((one) => one.function === row.function && one.file === row.file);
  return (
    <aside class="side" aria-label="Selected function" tabIndex={0}>
      <div class="dim">selected</div>
      <Name of={row} hasPlace={false} />
      <p class="quiet" style={{ overflowWrap: "anywhere" }}>
        {row.file}
      </p>
      <div class="actions">
        <button type="button" class="plain" onClick={() => go("flame", { n: row.function, p: "" })}>
          Sandwich
        </button>
        {row.file === "" ? null : (
          <button type="button" class="plain" onClick={() => go("source", { src: row.file })}>
            Source
          </button>
        )}
        <button type="button" class="plain" onClick={() => change({ f: `^${literally(row.function)}$` })}>
          Only this
        </button>
      </div>
      <Trouble failed={loaded.failed} />
      <Neighbours title="callers" of={found?.callers ?? []} unit={unit} whole={row.cum} />
      <h2>this function</h2>
      <ul>
        <li>
          <span>
            <b>{estimated(row.cum, unit)}</b>
          </span>
          <span>
            total, {share(row.cum.value, total.value)} <span class="pm">{relative(row.cum)}</span>
          </span>
        </li>
        {found === undefined ? null : (
          <li>
            <span>{estimated(found.flat, unit)}</span>
            <span>own, without library frames attributed to it</span>
          </li>
        )}
      </ul>
      {ages === null || ages.histogram.length === 0 ? null : (
        <div class="suspect-like">
          <h2>age of its live bytes</h2>
          <AgeBars of={ages} />
        </div>
      )}
      <Neighbours title="callees" of={found?.callees ?? []} unit={unit} whole={row.cum} />
    </aside>
  );
}

function Neighbours({ title, of, unit, whole }: { title: string; of: (FrameName & { value: Estimate })[]; unit: Unit; whole: Estimate }) {
  if (of.length === 0) return null;
  return (
    <>
      <h2>{title}</h2>
      <ul>
        {of.slice(0, MOST).map((one) => (
          <li key={one.function + one.file}>
            <span>
              {estimated(one.value, unit)}
              <Under share={(one.value.value ?? 0) / Math.max(1, whole.value ?? 1)} />
            </span>
            <Name of={one} />
          </li>
        ))}
        {of.length > MOST ? <li class="dim">{of.length - MOST} more</li> : null}
      </ul>
    </>
  );
}
