// Notices about data that a profile lacks, in the words of the command line; a command that is named is to be copied.
import type { SourceEntry } from "../types";
import { capital } from "./figures";
import { Notice } from "./notice";

export type Sampling = "off" | "ended" | "detached";

/** How a process is sampled that is not sampled as it was since its start; `null`: as ever. */
export function samplingOf(entry: SourceEntry): Sampling | null {
  if (!entry.is_running) return null;
  if (entry.state === "sampling is off") return "off";
  if (entry.state === "detached") return "detached";
  return entry.state?.startsWith("ended") ? "ended" : null;
}

/** On a screen that does not say what its profile lacks. */
export function SamplingNotice({ entry }: { entry: SourceEntry }) {
  switch (samplingOf(entry)) {
    case "off":
      return (
        <Notice kind="part" fact="Sampling is off." command={`ramson set ${entry.pid} --on`}>
          New allocations are not recorded. To resume:
        </Notice>
      );
    case "ended":
      return (
        <Notice kind="part" fact="Sampling has ended." command={`ramson detach ${entry.pid}`}>
          New allocations are not recorded, and the hooks are still in place. To remove them:
        </Notice>
      );
    case "detached":
      return <Detached entry={entry} />;
    default:
      return null;
  }
}

function Detached({ entry }: { entry: SourceEntry }) {
  return (
    <Notice kind="part" fact="Detached." command={`ramson attach ${entry.pid}`}>
      The program is still running; live memory is shown as it was at the detach. To record it again:
    </Notice>
  );
}

export function Lacks({ defects, entry }: { defects: string[]; entry: SourceEntry }) {
  const own = defects.filter((defect) => COMMAND.test(defect));
  const isOfDetach = (defect: string) => samplingOf(entry) === "detached" && defect.startsWith("detached ");
  const others = defects.filter((defect) => !COMMAND.test(defect) && !isOfDetach(defect));
  return (
    <>
      {own.map((defect) => {
        const [, fact = "", says = "", command = ""] = COMMAND.exec(defect)!;
        return (
          <Notice key={command} kind="part" fact={`${capital(fact)}.`} command={command}>
            {capital(says)}:
          </Notice>
        );
      })}
      {samplingOf(entry) === "detached" ? <Detached entry={entry} /> : null}
      {others.length === 0 ? null : (
        <Notice kind="part" fact="Not complete:">
          {others.length === 1 ? (
            others[0]
          ) : (
            <ul>
              {others.map((defect) => (
                <li key={defect}>{defect}</li>
              ))}
            </ul>
          )}
        </Notice>
      )}
    </>
  );
}

/** `sampling has been off for 3 s; new allocations are not recorded: ramson set 7 --on`. */
const COMMAND = /^([^;,]+)(?:; |, and )(.+): (ramson [a-z]+ [^;]+)$/;
