import { Change, Name, Under } from "../../parts/figures";
import { byFunction, idOf } from "../../state/suspects";
import type { Leaks, Top } from "../../types";
import { duration, estimated, relative, share } from "../../units";

const ROWS = innerHeight > 1200 ? 10 : 5;

/** `hasTimes`: ages and growth are known, or on their way. */
export function Largest({ top, leaks, hasTimes }: { top: Top; leaks: Leaks | null; hasTimes: boolean }) {
  const known = byFunction(leaks?.suspects ?? []);
  const rows = top.rows.filter((row) => row.flat.value !== 0).slice(0, ROWS);
  if (rows.length === 0) return <p class="dim">None is known.</p>;
  const most = top.rows[0]?.flat.value ?? 0;
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">function</th>
          <th scope="col" class="n" style={{ width: "90px" }}>
            live
          </th>
          <th scope="col" class="n hide-s" style={{ width: "64px" }}>
            ±
          </th>
          {hasTimes ? (
            <>
              <th scope="col" class="n hide-s" style={{ width: "74px" }}>
                age p50
              </th>
              <th scope="col" class="n hide-m" style={{ width: "110px" }}>
                growth/h
              </th>
            </>
          ) : null}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => {
          const suspect = known.get(idOf(row));
          return (
            <tr key={row.function + row.file} style={{ height: "47px" }}>
              <td>
                <Name of={row} />
                <Under share={most > 0 ? (row.flat.value ?? 0) / most : 0} isLeft />
              </td>
              <td class="n">
                <b>{estimated(row.flat, top.unit)}</b>
                <br />
                <span class="dim">{share(row.flat.value, top.total.value)}</span>
              </td>
              <td class="n hide-s pm">{relative(row.flat)}</td>
              {hasTimes ? (
                <>
                  <td class="n hide-s">{suspect?.ages ? duration(suspect.ages.p50_ns) : "–"}</td>
                  <td class="n hide-m">{suspect?.growth ? <Change of={suspect.growth.bytes_per_hour} isBare /> : <span class="dim">–</span>}</td>
                </>
              ) : null}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
