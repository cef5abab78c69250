import { Heading, Name } from "../../parts/figures";
import { followed, Link } from "../../parts/link";
import { param, hrefOf } from "../../state/route";
import type { Flame } from "../../types";
import { count, estimated, relative, share } from "../../units";

export function InGraph({ flame, isStale }: { flame: Flame; isStale: boolean }) {
  if (flame.flat.length === 0) return null;
  const of = param("p") === "" && param("n") === "" ? "In this graph" : "In the zoomed part";
  return (
    <div class="below">
      <section style={{ opacity: isStale ? 0.6 : 1 }}>
        <Heading title={of} says="what functions allocate themselves">
          <Link to="table">Table</Link>
        </Heading>
        <table>
          <thead>
            <tr>
              <th scope="col">function</th>
              <th scope="col" class="n" style={{ width: "90px" }}>
                own
              </th>
              <th scope="col" class="n" style={{ width: "80px" }}>
                of total
              </th>
              <th scope="col" class="n hide-s" style={{ width: "80px" }}>
                ±
              </th>
              <th scope="col" class="n hide-m" style={{ width: "90px" }}>
                objects
              </th>
            </tr>
          </thead>
          <tbody>
            {flame.flat.slice(0, 20).map((row) => {
              const one = flame.functions[row.function]!;
              const to = { n: one.function, p: "" };
              return (
                <tr key={one.key}>
                  <td>
                    <a class="name" href={hrefOf("flame", to)} onClick={followed("flame", to)} style={{ color: "inherit", fontWeight: 400 }}>
                      <Name of={one} />
                    </a>
                  </td>
                  <td class="n">
                    <b>{estimated(row.value, flame.unit)}</b>
                  </td>
                  <td class="n">{share(row.value.value, flame.total.value.value)}</td>
                  <td class="n hide-s pm">{relative(row.value)}</td>
                  <td class="n hide-m">{count(row.objects.value)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </section>
    </div>
  );
}
