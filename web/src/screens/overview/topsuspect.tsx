import { Change, Figure, Heading, Name } from "../../parts/figures";
import { Link } from "../../parts/link";
import { verdictPill } from "../../parts/verdict";
import type { Leaks } from "../../types";
import { duration, share } from "../../units";

export function TopSuspect({ leaks }: { leaks: Leaks }) {
  const { answer } = leaks;
  const top = leaks.suspects[0];
  const judged = answer.findings - answer.undecided;
  const grow = `${answer.leak_suspects} leak suspect${answer.leak_suspects === 1 ? "" : "s"} among ${judged} function${judged === 1 ? "" : "s"} judged`;
  const found = answer.leak_suspects === 0 ? `no leak found in ${judged} function${judged === 1 ? "" : "s"}` : grow;
  const says = answer.findings === 0 ? "nothing to judge" : found + (answer.undecided === 0 ? "" : `; ${answer.undecided} not judged yet`);
  return (
    <section>
      <Heading title="Top suspect" says={says}>
        <Link to="suspects">Suspects</Link>
      </Heading>
      {top === undefined || answer.leak_suspects === 0 ? null : (
        <div class="card">
          <p>
            <Name of={top} /> {verdictPill(top.verdict)}
          </p>
          <p class="quiet">
            <Figure of={top.inuse_space} />
            {top.growth ? (
              <>
                {" · "}
                <Change of={top.growth.bytes_per_hour} />/h
              </>
            ) : null}
            {top.ages ? ` · age p50 ${duration(top.ages.p50_ns)}` : ""}
            {top.survival ? ` · ${share(top.survival.never_freed, 1)} never freed` : ""}
          </p>
        </div>
      )}
    </section>
  );
}
