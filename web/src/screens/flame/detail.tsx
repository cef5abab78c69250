// Facts about the cell under the pointer or the keys. The box never changes its height.
import { Link } from "../../parts/link";
import type { Flame } from "../../types";
import { absolute, amount, base, bytes, count, duration, relative, share } from "../../units";
import { changeOf } from "./colours";
import type { Cell } from "./layout";
import { nameOf } from "./paint";

export function Detail({ cell, flame, name }: { cell: Cell; flame: Flame; name: string }) {
  const one = cell.function >= 0 ? flame.functions[cell.function]! : null;
  const of = { value: cell.cum, half_width_95: cell.half };
  const isBytes = flame.unit === "bytes";
  return (
    <div class="detail" role="status">
      <div class="what">
        <p title={one?.function ?? ""}>
          <b>{nameOf(cell, { flame, name })}</b>
        </p>
        <p class="quiet">
          {one === null ? (cell.function === -1 ? "frames that are too narrow to draw" : flame.around === null ? "all stacks" : "all stacks through it") : (
            <>
              {[one.file === "" ? "" : base(one.file) + (one.line > 0 ? `:${one.line}` : ""), one.library === null ? "" : flame.libraries[one.library]!].filter((text) => text !== "").join(" · ")}{" "}
              <Link to="flame" params={{ n: one.function, p: "" }}>
                Sandwich
              </Link>{" "}
              {one.file === "" ? null : (
                <Link to="source" params={{ src: one.file }}>
                  Source
                </Link>
              )}
            </>
          )}
        </p>
      </div>
      <dl class="facts">
        <Fact name="own" is={amount(cell.flat, flame.unit)} isWide />
        <Fact name="total" is={amount(cell.cum, flame.unit)} />
        <Fact name="±" is={cell.half === null ? "–" : relative(of) || "exact"} />
        <Fact name="of total" is={share(Math.abs(cell.cum), Math.abs(flame.total.value.value ?? 0))} isWide />
        {isBytes ? <Fact name="objects" is={count(cell.objects)} isWide /> : null}
        {isBytes && cell.objects > 0 ? <Fact name="mean size" is={bytes(cell.cum / cell.objects)} isWide /> : null}
        <Tint cell={cell} flame={flame} />
      </dl>
    </div>
  );
}

/** Figure that the colour stands for. */
function Tint({ cell, flame }: { cell: Cell; flame: Flame }) {
  if (flame.tint === null) return null;
  if (flame.tint.by === "age") return <Fact name="mean age" is={cell.tint === null ? "–" : duration(cell.tint)} />;
  const of = { value: cell.tint, half_width_95: cell.tintHalf };
  const isGrowth = flame.tint.by === "growth";
  const unit = isGrowth ? "bytes" : flame.unit;
  return (
    <>
      {isGrowth ? null : <Fact name="before" is={cell.tint === null ? "–" : amount(cell.cum - cell.tint, unit)} isWide />}
      <Fact name={isGrowth ? "growth/h" : "Δ"} is={changeOf(cell, flame)} />
      <Fact name="± of it" is={cell.tint === null ? "–" : absolute(of, unit) || "exact"} isWide />
    </>
  );
}

function Fact({ name, is, isWide = false }: { name: string; is: string; isWide?: boolean }) {
  return (
    <div class={isWide ? "hide-m" : ""}>
      <dt>{name}</dt>
      <dd>{is}</dd>
    </div>
  );
}
