// Notices, and commands to be typed.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { Failed } from "../state/api";
import { sources } from "../state/live";

export const toast = signal("");
let hide: ReturnType<typeof setTimeout> | undefined;

export function say(text: string): void {
  toast.value = text;
  clearTimeout(hide);
  hide = setTimeout(() => (toast.value = ""), 2500);
}

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied");
  } catch {
    say("The browser does not let this page copy: select the text");
  }
}

export function CommandLine({ text }: { text: string }) {
  return (
    <div class="command">
      <code tabIndex={0}>{text}</code>
      <button type="button" class="plain" onClick={() => void copy(text)}>
        Copy
      </button>
    </div>
  );
}

export function Notice({ kind = "", fact, children, command }: { kind?: "" | "part" | "dead"; fact: string; children?: ComponentChildren; command?: string }) {
  return (
    <div class={`notice ${kind}`} role="note">
      <p>
        <b>{fact}</b> {children}
      </p>
      {command ? <CommandLine text={command} /> : null}
    </div>
  );
}

/** Why a part of a screen is not there. The line is that of the command. */
export function Trouble({ failed }: { failed: Failed | null }) {
  if (failed === null || failed.status === 401 || (failed.status === 0 && sources.value !== null)) return null;
  const [fact = "", ...rest] = failed.message.split(": ");
  return (
    <Notice kind="part" fact={rest.length === 0 ? fact : `${fact}:`}>
      {rest.join(": ")}
    </Notice>
  );
}

export function Skeleton({ height }: { height: number }) {
  return <div class="skeleton" style={{ height: `${height}px` }} aria-hidden="true" />;
}
