// The largest significant changes of the window.
import { Change, Name } from "../../parts/figures";
import { Skeleton, Trouble } from "../../parts/notice";
import { useDiff } from "../diff/read";
import type { SourceEntry } from "../../types";

export function Moved({ entry }: { entry: SourceEntry }) {
  const { loaded } = useDiff(entry);
  const diff = loaded.value;
  if (diff === null) return loaded.failed === null ? <Skeleton height={120} /> : <Trouble failed={loaded.failed} />;
  const rows = diff.rows.filter((row) => row.is_significant && (row.flat.value ?? 0) !== 0).slice(0, 10);
  if (rows.length === 0) return <p class="dim">No significant change.</p>;
  return (
    <table>
      <tbody>
        {rows.map((row) => (
          <tr key={row.function + row.file}>
            <td>
              <Name of={row} />
            </td>
            <td class="n" style={{ width: "200px" }}>
              <Change of={row.flat} unit={diff.unit} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
