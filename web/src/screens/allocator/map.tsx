// The heap: a row for each arena, a cell for so many bytes of its addresses, filled from below.
import { useCallback, useMemo, useState } from "preact/hooks";
import { Canvas, colour, FONT, useWidth, type Painted } from "../../parts/canvas";
import { Heading } from "../../parts/figures";
import type { Arena, MapCell } from "../../types";
import { bytes, share } from "../../units";

const HEIGHT = 14;
const GAP = 2;
const LABEL = 60;
const LEAST_WIDTH = 10;

interface Cell {
  arena: number;
  row: number;
  column: number;
  bytes: number;
  resident: number;
  free: number;
}

/** Neighbouring cells are joined until a row has room for the largest arena, or it takes several rows. */
function arrange(map: MapCell[], width: number): { cells: Cell[]; rows: { arena: number; row: number }[]; columns: number; each: number } {
  const columns = Math.max(8, Math.floor((width - LABEL) / (LEAST_WIDTH + GAP)));
  const byArena = new Map<number, MapCell[]>();
  for (const cell of map) byArena.set(cell.arena, [...(byArena.get(cell.arena) ?? []), cell]);
  const join = Math.max(1, Math.ceil(map.length / 1024));
  const cells: Cell[] = [];
  const rows: { arena: number; row: number }[] = [];
  let row = 0;
  for (const [arena, own] of [...byArena].sort((a, b) => a[0] - b[0])) {
    rows.push({ arena, row });
    let column = 0;
    for (let at = 0; at < own.length; at += join) {
      const joined = own.slice(at, at + join);
      const sum = (of: (cell: MapCell) => number) => joined.reduce((total, cell) => total + of(cell), 0);
      if (column === columns) {
        column = 0;
        row += 1;
      }
      cells.push({ arena, row, column, bytes: sum((cell) => cell.bytes), resident: sum((cell) => cell.resident_bytes), free: sum((cell) => cell.free_bytes) });
      column += 1;
    }
    row += 1;
  }
  return { cells, rows, columns, each: Math.max(0, ...map.map((cell) => cell.bytes)) * join };
}

export function HeapMap({ of, arenas }: { of: MapCell[]; arenas: Arena[] }) {
  const [area, width] = useWidth<HTMLElement>();
  const { cells, rows, columns, each } = useMemo(() => arrange(of, width), [of, width]);
  const [read, setRead] = useState<Cell | null>(null);
  const height = (Math.max(0, ...cells.map((cell) => cell.row)) + 1) * (HEIGHT + GAP);
  const side = Math.max(1, (width - LABEL) / columns - GAP);
  const name = (arena: number) => (arenas[arena]?.is_main ? "main" : `arena ${arena}`);
  const paint = useCallback(
    ({ context }: Painted) => {
      context.font = `11px ${FONT}`;
      context.textBaseline = "top";
      context.fillStyle = colour("text3");
      for (const one of rows) context.fillText(name(one.arena), 0, one.row * (HEIGHT + GAP) + 1, LABEL - 6);
      const colours = { live: colour("live"), free: colour("free"), line: colour("line2") };
      for (const cell of cells) {
        const [x, y] = [LABEL + cell.column * (side + GAP), cell.row * (HEIGHT + GAP)];
        context.strokeStyle = colours.line;
        context.lineWidth = 1;
        context.strokeRect(x + 0.5, y + 0.5, side - 1, HEIGHT - 1);
        const free = Math.min(cell.free, cell.resident);
        const [live, of] = [(cell.resident - free) / cell.bytes, free / cell.bytes];
        const high = live * HEIGHT;
        context.fillStyle = colours.live;
        context.fillRect(x, y + HEIGHT - high, side, high);
        context.fillStyle = colours.free;
        context.fillRect(x, y + HEIGHT - high - of * HEIGHT, side, of * HEIGHT);
        if (free > 0.02 * cell.bytes && live > 0.001) stripes(context, x, y + HEIGHT - high - of * HEIGHT, side, of * HEIGHT);
      }
    },
    [cells, side],
  );
  const at = (event: MouseEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const [column, row] = [Math.floor((event.clientX - box.left - LABEL) / (side + GAP)), Math.floor((event.clientY - box.top) / (HEIGHT + GAP))];
    setRead(cells.find((cell) => cell.column === column && cell.row === row) ?? null);
  };
  const sum = (of: (cell: Cell) => number) => cells.reduce((total, cell) => total + of(cell), 0);
  const [taken, resident, free] = [sum((cell) => cell.bytes), sum((cell) => cell.resident), sum((cell) => Math.min(cell.free, cell.resident))];
  return (
    <section class="map" ref={area}>
      <Heading title="Heap map" says={`a cell for each ${bytes(each)} of address space; rows are arenas`}>
        <span class="legend" style={{ marginLeft: "auto", padding: 0, border: 0 }}>
          <span>
            <span class="swatch c-live" aria-hidden="true" /> live
          </span>
          <span>
            <span class="swatch" style={{ background: "var(--free)" }} aria-hidden="true" /> free
          </span>
          <span>
            <span class="swatch c-free" aria-hidden="true" /> free, beside live blocks
          </span>
          <span>
            <span class="swatch" style={{ border: "1px solid var(--line2)" }} aria-hidden="true" /> not resident
          </span>
        </span>
      </Heading>
      <Canvas
        height={height}
        paint={paint}
        label={`${cells.length} cells of the heap: ${bytes(resident - free)} live, ${bytes(free)} free, ${bytes(taken - resident)} not resident`}
        onMouseMove={at}
        onMouseLeave={() => setRead(null)}
      />
      <p class="readout">
        {read === null ? "" : `${name(read.arena)}, ${bytes(read.bytes)}: ${bytes(read.resident - Math.min(read.free, read.resident))} live, ${bytes(Math.min(read.free, read.resident))} free (${share(Math.min(read.free, read.resident), read.bytes)}), ${bytes(read.bytes - read.resident)} not resident`}
      </p>
    </section>
  );
}

function stripes(context: CanvasRenderingContext2D, x: number, y: number, width: number, height: number): void {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = colour("bg");
  context.globalAlpha = 0.6;
  context.beginPath();
  for (let at = -height; at < width; at += 4) {
    context.moveTo(x + at, y + height);
    context.lineTo(x + at + height, y);
  }
  context.stroke();
  context.restore();
}
