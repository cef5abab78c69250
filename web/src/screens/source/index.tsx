// Which line. The server opens only files that the profile names, below the directories that it was started with.
import { Figure, Heading } from "../../parts/figures";
import { Link } from "../../parts/link";
import { Notice, Skeleton, Trouble } from "../../parts/notice";
import { useDocument } from "../../state/documents";
import { moment, pathOf, sample } from "../../state/paths";
import { param } from "../../state/route";
import type { SourceEntry, SourceFile, Top, Unit } from "../../types";
import { amount, base, estimated, relative, share } from "../../units";

export function SourceScreen({ entry }: { entry: SourceEntry }) {
  const words = { view: "lines", rows: 0, "count": sample(), at: moment() };
  const lines = useDocument<Top>(pathOf(entry, "report", words), "lines");
  const top = lines.value;
  const files = new Map<string, number>();
  for (const row of top?.rows ?? []) if (row.file !== "") files.set(row.file, (files.get(row.file) ?? 0) + (row.flat.value ?? 0));
  const sorted = [...files].filter(([, flat]) => flat > 0).sort((a, b) => b[1] - a[1]);
  const file = param("src") || (sorted[0]?.[0] ?? "");
  return (
    <div class="split">
      <div class="scroll" style={{ padding: "12px 20px" }} tabIndex={0} role="region" aria-label="Source">
        <Trouble failed={lines.failed} />
        {top === null ? <Skeleton height={300} /> : file === "" ? <Notice fact="No source files are known:">the program has no debug information, or none that was found.</Notice> : <File entry={entry} file={file} top={top} />}
      </div>
      <aside class="side" aria-label="Files" tabIndex={0}>
        <h2>files by what they allocate</h2>
        <ul>
          {sorted.slice(0, 60).map(([name, flat]) => (
            <li key={name}>
              <span>{top === null ? "" : amount(flat, top.unit)}</span>
              <span class="name" title={name}>
                <Link to="source" params={{ src: name }}>
                  {base(name)}
                </Link>
              </span>
            </li>
          ))}
        </ul>
      </aside>
    </div>
  );
}

function File({ entry, file, top }: { entry: SourceEntry; file: string; top: Top }) {
  const loaded = useDocument<SourceFile>(pathOf(entry, "source", { file, "count": sample() }), `source ${file}`);
  const own = top.rows.filter((row) => row.file === file && (row.flat.value ?? 0) !== 0);
  return (
    <>
      <Heading title={base(file)} says={file} />
      {loaded.failed === null ? null : <Notice fact="The text is not shown:">{loaded.failed.message}</Notice>}
      {loaded.value === null ? (
        <table>
          <thead>
            <tr>
              <th scope="col" class="n" style={{ width: "60px" }}>
                line
              </th>
              <th scope="col" class="n" style={{ width: "90px" }}>
                own
              </th>
              <th scope="col" class="n" style={{ width: "70px" }}>
                ±
              </th>
              <th scope="col" class="n" style={{ width: "80px" }}>
                of total
              </th>
              <th scope="col">function</th>
            </tr>
          </thead>
          <tbody>
            {own.map((row) => (
              <tr key={`${row.function} ${row.line}`}>
                <td class="n">{row.line || "–"}</td>
                <td class="n">
                  <b>{estimated(row.flat, top.unit)}</b>
                </td>
                <td class="n pm">{relative(row.flat)}</td>
                <td class="n">{share(row.flat.value, top.total.value)}</td>
                <td class="name" title={row.function}>
                  {row.function}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <Text of={loaded.value} unit={top.unit} />
      )}
    </>
  );
}

/** Lines with bytes, and those around them. */
function Text({ of, unit }: { of: SourceFile; unit: Unit }) {
  return (
    <>
      {of.is_newer ? <Notice kind="part" fact="The file was changed after the program started:">these may not be the lines that were compiled.</Notice> : null}
      <table class="code">
        <thead>
          <tr>
            <th scope="col" class="n line">
              line
            </th>
            <th scope="col" class="n">
              own
            </th>
            <th scope="col" class="n hide-m">
              total
            </th>
            <th scope="col">text</th>
          </tr>
        </thead>
        <tbody>
          {of.lines.map((line, index) => {
            const isApart = index > 0 && of.lines[index - 1]!.line + 1 < line.line;
            return (
              <tr key={line.line} class={`${line.flat ? "hot" : ""}${isApart ? " apart" : ""}`}>
                <td class="n dim">{line.line}</td>
                <td class="n">{line.flat === null ? "" : <Figure of={line.flat} unit={unit} />}</td>
                <td class="n hide-m dim">{line.cum === null ? "" : <Figure of={line.cum} unit={unit} />}</td>
                <td>{line.text}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <p class="dim">
        {of.lines.length} of {of.all_lines} lines{of.left_out > 0 ? `; ${of.left_out} more have bytes` : ""}. {of.path}
      </p>
    </>
  );
}
