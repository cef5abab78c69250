// The call tree of the later moment, coloured by what changed since the earlier one.
import { useMemo, useState } from "preact/hooks";
import { theme, useWidth } from "../../parts/canvas";
import { Heading } from "../../parts/figures";
import { Skeleton, Trouble } from "../../parts/notice";
import { useDocument } from "../../state/documents";
import { pathOf, sample } from "../../state/paths";
import { change, param } from "../../state/route";
import type { Flame, SourceEntry } from "../../types";
import { LegendLine } from "../flame";
import { coloursOf } from "../flame/colours";
import { Detail } from "../flame/detail";
import { GraphView } from "../flame/graph";
import { layout, type Cell } from "../flame/layout";
import type { Compared } from "./read";

const STEP = 200;

export function DiffGraph({ entry, compared, isSwapped }: { entry: SourceEntry; compared: Compared; isSwapped: boolean }) {
  const [area, width] = useWidth<HTMLDivElement>();
  const path = param("p");
  const [old, at] = isSwapped ? [compared.at ?? "now", compared.old] : [compared.old, compared.at];
  const words = {
    old,
    at,
    width: Math.min(10_000, Math.max(200, Math.ceil(width / STEP) * STEP)),
    path,
    "count": sample(),
  };
  const loaded = useDocument<Flame>(width === 0 ? null : pathOf(entry, "flame", words), `diff flame ${old} ${at} ${sample() ?? ""}`);
  const flame = loaded.value;
  const keys = useMemo(() => (path === "" ? [] : path.split(".")), [path]);
  const graph = useMemo(() => (flame === null || width === 0 ? null : layout(flame, keys, width)), [flame, keys, width]);
  const isDark = theme.value === "dark";
  const colours = useMemo(() => (flame === null || graph === null ? null : coloursOf(flame, graph.cells, "change", isDark)), [flame, graph, isDark]);
  const [chosen, choose] = useState("");
  const [hovered, hover] = useState<Cell | null>(null);
  const selected = graph?.cells.find((cell) => cell.path.join(".") === chosen && cell.function !== -1) ?? graph?.zoomed ?? null;
  const zoom = (cell: Cell) => {
    choose(cell.path.join("."));
    change({ p: cell.path.join(".") });
  };
  return (
    <section>
      <Heading title="Differential flame graph" says="width: the later moment; colour: the change. Swap shows what is gone" />
      <Trouble failed={loaded.failed} />
      <div ref={area} />
      {flame === null || graph === null || colours === null ? (
        loaded.failed === null ? <Skeleton height={200} /> : null
      ) : (
        <>
          <div class="flame-area bare">
            <GraphView
              graph={graph}
              flame={flame}
              name={entry.name}
              isBottom={false}
              colours={colours}
              isMatch={null}
              selected={selected}
              onSelect={(cell) => choose(cell.path.join("."))}
              onZoom={zoom}
              onHover={hover}
            />
          </div>
          <div class="foot">
            <LegendLine colours={colours} graph={graph} flame={flame} />
            <Detail cell={hovered ?? selected ?? graph.zoomed} flame={flame} name={entry.name} />
          </div>
        </>
      )}
    </section>
  );
}
