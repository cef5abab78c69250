// Requests to the server, or to the file that the page is.
import { signal } from "@preact/signals";
import { saved } from "./offline";
import { isUnproven, provenToken, unstoreToken } from "./token";

/** Why something could not be shown. */
export class Failed extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** The server does not know the token. */
export const isLockedOut = signal(false);
/** Since when the server does not answer, in ms; `null`: it does. */
export const goneSince = signal<number | null>(null);
export const goneBecause = signal("");

export async function open(path: string, signalOf?: AbortSignal, action?: string): Promise<Response> {
  const headers: Record<string, string> = action === undefined ? {} : { "X-Ramson-Action": action };
  let reply: Response;
  try {
    const token = await provenToken();
    if (isUnproven.value) {
      isLockedOut.value = true;
      throw new Failed("the server has no proof", 401);
    }
    if (token !== null) headers["Authorization"] = `Bearer ${token}`;
    reply = await fetch(path, { method: action === undefined ? "GET" : "POST", headers, credentials: "omit", signal: signalOf ?? null });
  } catch (error) {
    if (signalOf?.aborted || error instanceof Failed) throw error;
    unstoreToken();
    goneSince.value ??= Date.now();
    goneBecause.value = error instanceof Error ? error.message : String(error);
    throw new Failed("the server does not answer", 0);
  }
  goneSince.value = null;
  if (reply.status === 401) {
    isLockedOut.value = true;
    throw new Failed("wrong token", 401);
  }
  isLockedOut.value = false;
  return reply;
}

/** Parameters of one picture and one page of rows; a file has all of both. */
const LEFT_OUT = new Set(["rows", "width", "path", "focus", "function"]);

/** Name of a document in a file: without the source, parameters in the order of their names. */
function keyOf(path: string): string {
  const [name = "", query = ""] = path.replace(/^p\/[^/]+\//, "").split("?");
  const words = [...new URLSearchParams(query)].filter(([word]) => !LEFT_OUT.has(word)).map(([word, value]) => `${word}=${value}`);
  return words.length === 0 ? name : `${name}?${words.sort().join("&")}`;
}

export async function ask<T>(path: string, signalOf?: AbortSignal): Promise<T> {
  if (saved !== null) {
    const found = saved.documents[keyOf(path)];
    if (found === undefined) throw new Failed("this file does not hold that: open the profile with ramson serve", 404);
    return found as T;
  }
  return documentOf<T>(await open(`/api/v1/${path}`, signalOf));
}

/** Has a process changed, if the server allows that. */
export async function act<T>(path: string, action: string): Promise<T> {
  return documentOf<T>(await open(`/api/v1/${path}`, undefined, action));
}

async function documentOf<T>(reply: Response): Promise<T> {
  const text = await reply.text();
  if (!reply.ok) {
    const isDocument = reply.headers.get("Content-Type") === "application/json";
    const message = isDocument ? (JSON.parse(text) as { message: string }).message : text.trim();
    throw new Failed(message, reply.status);
  }
  return JSON.parse(text) as T;
}
