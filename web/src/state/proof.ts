// Whether the server at this address has the token: asked without sending the token.

const NONCE_BYTES = 32;
/** Requests that are made at the same time share a proof. */
const underway = new Map<string, Promise<boolean>>();

/** Fails where the server does not answer. */
export function hasProof(token: string): Promise<boolean> {
  // By HTTPS, the certificate is the proof. Elsewhere, a browser has crypto.subtle for this machine's own addresses only: from another
  // machine and without encryption, the token is readable on its way, whoever gets it.
  if (location.protocol === "https:" || !isSecureContext) return Promise.resolve(true);
  const known = underway.get(token);
  if (known !== undefined) return known;
  const asked = challenge(token).finally(() => underway.delete(token));
  underway.set(token, asked);
  return asked;
}

async function challenge(token: string): Promise<boolean> {
  const nonce = hexadecimal(crypto.getRandomValues(new Uint8Array(NONCE_BYTES)));
  const reply = await fetch(`/api/v1/challenge?nonce=${nonce}`, { credentials: "omit" });
  const [given, expected] = await Promise.all([reply.text(), proof(token, nonce + location.host)]);
  return reply.ok && given.trim() === expected;
}

async function proof(token: string, message: string): Promise<string> {
  const [key, data] = [token, message].map((text) => new TextEncoder().encode(text));
  const hmac = await crypto.subtle.importKey("raw", key!, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return hexadecimal(new Uint8Array(await crypto.subtle.sign("HMAC", hmac, data!)));
}

function hexadecimal(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
