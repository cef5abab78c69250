// The documents of a page that was saved as one file.
export interface Saved {
  unix_ns: number;
  note: string;
  documents: Record<string, unknown>;
}

function read(): Saved | null {
  const element = document.getElementById("saved");
  return element === null ? null : (JSON.parse(element.textContent ?? "null") as Saved);
}

export const saved: Saved | null = read();

/** The profile that the one in this file is compared with, as the command line named it. */
export const savedOld = (saved?.documents["sources"] as { old?: string } | undefined)?.old ?? null;
