// The page gives its token to the server that has it already, and to no other that gets the port.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, afterEach, before, test } from "node:test";
import { Browser, Place, settled } from "./serving.mjs";

let place;
let browser;
let profile;

before(async () => {
  place = await Place.make();
  profile = await place.died(await place.compile("../../../tests/programs/deaths.c", "deaths"), "segv");
  browser = await Browser.open();
});

afterEach(() => browser?.closePages());

after(async () => {
  await browser?.close();
  await place?.end();
});

async function stop(server) {
  server.child.kill("SIGTERM");
  await once(server.child, "exit");
}

/** Answers whatever a server at this port is asked, and notes what it is told. */
async function impostor(port, answer) {
  const heard = { paths: [], tokens: [] };
  const server = createServer((request, reply) => {
    heard.paths.push(request.url);
    if (request.headers.authorization !== undefined) heard.tokens.push(request.headers.authorization);
    answer(request, reply);
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const end = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  };
  return { heard, end };
}

async function opened(server, token) {
  const page = await browser.page(`${server.origin}/#token=${token}`);
  await page.getByRole("heading", { name: "deaths" }).waitFor();
  await settled(page);
  return page;
}

const stored = (page) => page.evaluate(() => Object.values({ ...sessionStorage, ...localStorage }));

test("another server at the port gets no token", async () => {
  const server = await place.serve(profile);
  const port = Number(new URL(server.origin).port);
  const page = await opened(server, server.token);
  await stop(server);
  const other = await impostor(port, (request, reply) => reply.end("0".repeat(64)));
  await page.getByText("This server could not prove that it is the one the token is for").waitFor();
  assert.deepEqual(await stored(page), []);
  await page.getByRole("button", { name: "Use it" }).waitFor();
  await new Promise((wake) => setTimeout(wake, 5500));
  assert.ok(other.heard.paths.some((path) => path.startsWith("/api/v1/challenge")), other.heard.paths.join(" "));
  assert.deepEqual(other.heard.tokens, []);
  await other.end();
  browser.errors.length = 0;
});

test("a proof of another port's server is worth nothing", async () => {
  const file = place.path("relayed-token");
  const server = await place.serveAt("127.0.0.1:0", file, profile);
  const page = await opened(server, server.token);
  await stop(server);
  const moved = await place.serveAt("127.0.0.1:0", file, profile);
  const relay = await impostor(Number(new URL(server.origin).port), async (request, reply) => {
    const { host } = new URL(server.origin);
    // fetch() would set Host itself.
    const { request: ask } = await import("node:http");
    ask(moved.origin + request.url, { headers: { host } }, (answer) => answer.pipe(reply.writeHead(answer.statusCode))).end();
  });
  await page.getByText("This server could not prove that it is the one the token is for").waitFor();
  assert.deepEqual(relay.heard.tokens, []);
  await relay.end();
  browser.errors.length = 0;
});

test("a server that comes back with its token is asked again", async () => {
  const file = place.path("kept-token");
  const server = await place.serveAt("127.0.0.1:0", file, profile);
  const { host } = new URL(server.origin);
  const page = await opened(server, server.token);
  await stop(server);
  await page.getByRole("heading", { name: "The server does not answer" }).waitFor();
  await page.waitForFunction(() => sessionStorage.length + localStorage.length === 0);
  await place.serveAt(host, file, profile);
  await page.getByRole("heading", { name: "deaths" }).waitFor();
  assert.deepEqual(await stored(page), [server.token]);
  await page.reload();
  await page.getByRole("heading", { name: "deaths" }).waitFor();
  browser.errors.length = 0;
});

test("who leaves a page that asks keeps the token", async () => {
  const server = await place.serveAt("127.0.0.1:0", place.path("left-token"), profile);
  const page = await opened(server, server.token);
  for (let left = 0; left < 8; left++) await page.reload({ waitUntil: "domcontentloaded" });
  await page.getByRole("heading", { name: "deaths" }).waitFor();
  browser.errors.length = 0;
});
