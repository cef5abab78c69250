// Tests what the page says of sources that are not as they should be: real ones, in both themes.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { copyFile, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { after, afterEach, before, test } from "node:test";
import { promisify } from "node:util";
import { Browser, heard, Place, settled, together, violations, violationsInBothThemes } from "./serving.mjs";

const run = promisify(execFile);
let place;
let browser;
let server;
let paths;
let list;

before(async () => {
  place = await Place.make();
  paths = { cut: place.path("cut.ramson"), gone: place.path("gone.ramson") };
  const [redis, postmaster] = await together(redisAfterDeletes(), place.postgres(), deaths(), outOfMemory(), quiet(), rustServer());
  paths.postmaster = postmaster;
  const running = [await place.pid("quiet"), await place.pid("kv"), redis].map(String);
  server = await place.serve(paths.huge, paths.cut, paths.gone, paths.oom, ...running, `tree:${paths.postmaster}`);
  const reply = await fetch(`${server.origin}/api/v1/sources`, { headers: { Authorization: `Bearer ${server.token}` } });
  list = (await reply.json()).sources;
  browser = await Browser.open();
});

afterEach(() => browser?.closePages());

after(async () => {
  await browser?.close();
  await place?.end();
});

async function deaths() {
  const program = await place.compile("../../../tests/programs/deaths.c", "deaths");
  paths.huge = await place.died(program, "huge");
  paths.segv = await place.died(program, "segv");
  const whole = await readFile(paths.segv);
  await writeFile(paths.cut, whole.subarray(0, whole.length / 2), { mode: 0o600 });
  await copyFile(paths.segv, paths.gone);
}

async function outOfMemory() {
  paths.oom = await place.diedOfLimit("64M", await place.compile("shop.cc", "shop"), "2000", "6000");
}

async function quiet() {
  await place.sampled("512M", /ready/, await place.compile("quiet.c", "quiet"));
}

/** Sets 4,000 values of 1,000 bytes. */
async function rustServer() {
  const socket = place.path("kv.sock");
  await place.profiled(await place.compile("kv.rs", "kv"), socket);
  const client = connect(socket);
  const answers = createInterface({ input: client });
  for (let at = 0; at < 4000; at += 1) client.write(`SET key${at} 1000\n`);
  client.end();
  await once(answers, "close");
}

/** A redis-server, as what to start. */
function redis(socket) {
  return ["redis-server", ["--port", "0", "--unixsocket", place.path(socket), "--save", "", "--enable-debug-command", "yes"]];
}

async function say(socket, ...words) {
  return (await run("redis-cli", ["-s", place.path(socket), ...words])).stdout;
}

const populate = (socket, prefix) => say(socket, "debug", "populate", "60000", prefix, "300");

/** A redis that keeps one of every twenty values: the memory between them is free, and pinned. */
async function redisAfterDeletes() {
  const [program, words] = redis("redis.sock");
  await place.sampled("64K", /ready to accept connections/i, program, ...words);
  await populate("redis.sock", "key");
  await say("redis.sock", "eval", "for i = 0, 59999 do if i % 20 ~= 0 then redis.call('del', 'key:' .. i) end end", "0");
  return Number(/process_id:(\d+)/.exec(await say("redis.sock", "info", "server"))[1]);
}

const idOf = (source) => list.find((entry) => entry.source === source || entry.name === source).id;
const text = async (page) => (await page.locator("main").innerText()).replaceAll(/[\u00a0\u202f]/g, " ");

/** Text of every screen of a source, once `isWhole` of it; each is whole in both themes. */
async function shown(id, screens = ["overview", "flame", "table", "timeline", "diff", "suspects", "allocator"], isWhole = {}) {
  const page = await browser.page(server.address);
  const found = {};
  for (const screen of screens) {
    await page.goto(`${server.origin}/${screen}?id=${id}`);
    await settled(page);
    await isWhole[screen]?.(page);
    assert.deepEqual(await violationsInBothThemes(page), [], screen);
    found[screen] = await text(page);
  }
  await page.context().close();
  assert.deepEqual(browser.errors.splice(0), []);
  return found;
}

test("a program that died as it got no memory says so, and with what", async () => {
  const { overview, allocator } = await shown(idOf(paths.huge));
  assert.match(overview, /Died \(SIGABRT\): out of memory\. An allocation of 1\.00 PiB had failed\./);
  assert.match(overview, /site_held holds/);
  assert.match(overview, /The process is gone, and its memory with it/);
  assert.match(allocator, /The process is gone,/);
});

test("without a sample there is a command with a smaller interval, and nothing is made up", async () => {
  const { overview, suspects } = await shown(idOf("quiet"));
  assert.match(overview, /No sample yet\..*one interval \(512 MiB\)/s);
  assert.match(overview, /ramson run --interval 64K/);
  assert.match(overview, /Not known yet\s+No sampled memory is live/);
  assert.match(overview, /The program mapped it itself/);
  assert.match(suspects, /No leak found\. .* 0 functions/s);
});

test("moments are compared only where a history has the stacks, and otherwise the page says how to keep them", async () => {
  const id = idOf("kv");
  const { timeline, diff } = await shown(id, ["timeline", "diff"]);
  const kept = new RegExp(`To keep (them|moments) from now on:\\s+ramson history ${id}`);
  for (const screen of [timeline, diff]) assert.match(screen, kept);
  const page = await browser.page(`${server.origin}/timeline?id=${id}&a=2-0#token=${server.token}`);
  await page.getByRole("button", { name: "Clear" }).waitFor();
  assert.equal(await page.getByRole("link", { name: "Compare" }).count(), 0);
  await page.goto(`${server.origin}/table?id=${id}&a=2-0`);
  await page.getByText("no stacks were kept for that time").waitFor();
  await page.context().close();
  assert.deepEqual(browser.errors.splice(0), []);
});

test("a profile that is cut says what is missing on every screen that counts", async () => {
  const { overview, suspects } = await shown(idOf(paths.cut));
  for (const screen of [overview, suspects]) assert.match(screen, /Not complete:\s+the file is truncated: \d+ bytes/);
});

test("an allocator that cannot be read is named, and what it holds is a part of RSS", async () => {
  // The server has to have looked twice.
  const isDrawn = (page) => page.getByText("held by the allocator").first().waitFor();
  const { overview, timeline, allocator } = await shown(idOf("redis-server"), ["overview", "timeline", "allocator"], { timeline: isDrawn });
  assert.match(overview, /held by jemalloc\s+[\d.]+%/);
  assert.match(timeline, /held by the allocator/);
  assert.doesNotMatch(timeline, /free in the allocator/);
  assert.match(allocator, /held by jemalloc\s+[\d.]+ .iB\s+beyond the live blocks: free, metadata and rounding/);
  assert.match(overview, /The allocator holds it/);
  assert.match(allocator, /is held by jemalloc beyond the live blocks.*ramson explain --ask \d+/s);
  assert.match(allocator, /cannot be read from outside/);
});

test("a program that the OOM killer ended says so, with its limit, and what it held", async () => {
  const { overview, suspects } = await shown(idOf(paths.oom), ["overview", "flame", "table", "suspects", "allocator"]);
  assert.match(overview, /■ SIGKILL, OOM killer/);
  assert.match(overview, /Killed by the OOM killer at \d\d:\d\d:\d\d UTC\. RSS [\d.]+ MiB/);
  assert.match(overview, /The limit of its control group \S+ is 64\.0 MiB\./);
  assert.match(overview, /acme::\S+ holds/);
  assert.match(overview, /no leak found in 0 functions; \d+ not judged yet/);
  assert.match(suspects, /not enough data yet/);
});

test("a Rust server is shown by its own functions, with the command line's figures", async () => {
  const found = await shown(idOf("kv"), ["overview", "flame", "table"]);
  const top = await place.json("report", String(await place.pid("kv")), "--view", "functions");
  const [set, note] = ["kv::Store::set", "kv::Store::note"].map((name) => top.rows.find((row) => row.function === name));
  assert.ok(set.flat.value > 3e6 && note.flat.value > 3e5, JSON.stringify(top.rows.slice(0, 5)));
  assert.match(found.overview, /kv::Store::set holds [\d.]+ MiB/);
  assert.match(found.flame, /kv::Store::set/);
  assert.match(found.table, /kv::Store::set\s*kv\.rs:\d+/);
  assert.match(found.table, /kv::Store::note/);
  for (const screen of Object.values(found)) assert.doesNotMatch(screen, /17h[0-9a-f]{16}E|_ZN|_R[NC]/);
});

test("PostgreSQL as a tree is one row per process, and what is not live is said first", async () => {
  const { overview, flame } = await shown(idOf(`tree:${paths.postmaster}`), ["overview", "flame", "table"]);
  assert.match(overview, /of RSS is (shared memory|code, data, files)/);
  assert.match(overview, /shared memory\s+[\d.]+%/);
  assert.match(overview, new RegExp(`postgres ${paths.postmaster} `));
  assert.match(overview, /postgres: checkpointer/);
  assert.match(flame, /The sum of \d+ processes/);
});

test("a profile that is removed while it is looked at is gone by its name, and the others stay", async () => {
  const id = idOf(paths.gone);
  const page = await browser.page(server.address);
  await page.goto(`${server.origin}/table?id=${id}`);
  await settled(page);
  await rm(paths.gone);
  await page.getByText("The profile of deaths is gone.").waitFor({ timeout: 15_000 });
  assert.match(await text(page), /no such file/);
  assert.deepEqual(await violations(page), []);
  await page.getByRole("link", { name: "quiet" }).click();
  await page.waitForURL(`**/table?id=${idOf("quiet")}`);
  await page.getByText("0 rows, 0 B of 0 B").waitFor();
  await page.context().close();
  assert.deepEqual(browser.errors.splice(0), []);
});

test("a process that was attached to says when sampling is off, when recording has ended, and when it has ended itself", async () => {
  const program = place.spawn(await place.compile("shop.cc", "attached"), ["500", "200"]);
  await once(program.stdout, "data");
  await place.ramson("attach", "--interval", "16K", String(program.pid));
  const own = await place.serve(String(program.pid));
  const page = await browser.page(own.address);
  await settled(page);
  assert.match(await text(page), /allocated before the attach or not seen\s+[\d.]+%/);
  await place.ramson("set", "--off", String(program.pid));
  await page.getByText(/^Sampling has been off for/).waitFor({ timeout: 20_000 });
  assert.match(await text(page), new RegExp(`New allocations are not recorded:\\s+ramson set ${program.pid} --on`));
  assert.doesNotMatch(await text(page), /Not known any more|No sample yet/);
  await page.goto(`${own.origin}/flame`);
  await page.getByText("Sampling is off.").waitFor();
  await place.ramson("detach", String(program.pid));
  await page.getByText("Detached.").waitFor({ timeout: 20_000 });
  await page.goto(`${own.origin}/overview`);
  await page.getByText("Detached.").waitFor();
  await settled(page);
  const then = await text(page);
  const { moments } = await (await fetch(`${own.origin}/api/v1/moments`, { headers: { Authorization: `Bearer ${own.token}` } })).json();
  assert.ok(moments.some((moment) => moment.live?.value > 0) && moments.at(-1).live === null, JSON.stringify(moments));
  assert.match(then, /live memory is shown as it was at the detach/);
  assert.doesNotMatch(then, /Not known any more|No sample yet|Sampling is off/);
  assert.deepEqual(await violations(page), []);
  program.kill("SIGTERM");
  await page.getByText("These are the last figures.").waitFor({ timeout: 20_000 });
  await page.getByText("What a trim returns now").waitFor({ state: "detached" });
  await page.getByText(/live memory is shown as it was at the detach/i).first().waitFor();
  const last = await text(page);
  assert.match(last, /The process is gone, and its memory with it/);
  assert.doesNotMatch(last, /\b0 B live|No sample yet|is not known any more/);
  assert.deepEqual(await violations(page), []);
  await page.context().close();
  assert.deepEqual(browser.errors.splice(0), []);
});

test("what another allocator held before an attach is not called free", async () => {
  const program = place.spawn(...redis("attached.sock"));
  await heard(program, /ready to accept connections/i);
  await populate("attached.sock", "before");
  await place.ramson("attach", "--interval", "64K", String(program.pid));
  await populate("attached.sock", "after");
  const own = await place.serve(String(program.pid));
  const page = await browser.page(own.address);
  await settled(page);
  const { rss } = await place.json("report", String(program.pid));
  assert.equal(rss.may_hold_live, true);
  assert.match(await text(page), /held by jemalloc: allocated before the attach, or free\s+[\d.]+%/);
  assert.match(await text(page), /live since the attach/);
  await page.goto(`${own.origin}/allocator`);
  await settled(page);
  assert.doesNotMatch(await text(page), /beyond the live blocks/);
  await page.context().close();
  assert.deepEqual(browser.errors.splice(0), []);
});

test("a process whose profile ends with it stays as it was last seen", async () => {
  const run = await place.profiled(await place.compile("shop.cc", "brief"), "500", "200");
  const { pid, profile } = (await place.profiles()).find((entry) => entry.name === "brief");
  const own = await place.serve(String(pid));
  const page = await browser.page(own.address);
  await settled(page);
  await rm(profile);
  run.kill("SIGTERM");
  await page.getByText("Its profile ended with it. These are the last figures.").waitFor({ timeout: 20_000 });
  const last = await text(page);
  assert.match(last, new RegExp(`brief\\s+pid ${pid}`));
  assert.match(last, /acme::SessionManager::open_session/);
  assert.match(last, /RSS\s+[\d.]+ MiB as last seen/);
  assert.doesNotMatch(last, /not served|No profiles here|no such file/);
  assert.deepEqual(await violations(page), []);
  await page.context().close();
  assert.deepEqual(browser.errors.splice(0), []);
});

test("what is mostly free says so first, and a page without a history asks for nothing that is not there", async () => {
  const freed = await place.compile("freed.c", "freed");
  await place.profiled(freed);
  const own = await place.serve(String(await place.pid("freed")));
  const refused = [];
  const page = await browser.page(own.address);
  page.on("response", (reply) => (reply.status() >= 400 ? refused.push(reply.url()) : undefined));
  await page.goto(`${own.origin}/overview`);
  await settled(page);
  assert.match(await text(page), /What is using the memory\?\s+[\d.]+ MiB free/i);
  assert.match(await text(page), /The program freed it, and malloc has not returned it\. [\d.]+ .iB .*is live/);
  await page.goto(`${own.origin}/timeline`);
  await settled(page);
  assert.deepEqual(refused, []);
  await page.context().close();
  assert.deepEqual(browser.errors.splice(0), []);
});

/** Resident bytes, as a trim reads them. */
async function rssOf(pid) {
  return 1024 * Number(/^Rss:\s+(\d+) kB/m.exec(await readFile(`/proc/${pid}/smaps_rollup`, "utf8"))[1]);
}

const UNITS = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };
const bytesIn = (said) => said.replaceAll(/[\u00a0\u202f]/g, " ").match(/([\d.]+) (\w+)/).slice(1).reduce((number, unit) => number * UNITS[unit]);

test("a trim is asked for in the page, says what it does, and RSS falls by what the page says", async () => {
  const [program, words] = redis("trimmed.sock");
  // Otherwise jemalloc returns it by itself while the page is looked at.
  place.environment.MALLOC_CONF = "dirty_decay_ms:-1,muzzy_decay_ms:-1";
  await place.sampled("64K", /ready to accept connections/i, program, ...words);
  delete place.environment.MALLOC_CONF;
  await populate("trimmed.sock", "key");
  await say("trimmed.sock", "eval", "for i = 0, 59999 do redis.call('del', 'key:' .. i) end", "0");
  const pid = Number(/process_id:(\d+)/.exec(await say("trimmed.sock", "info", "server"))[1]);
  const own = await place.serve("--allow-actions", String(pid), paths.segv);
  const page = await browser.page(own.address);
  await page.goto(`${own.origin}/allocator?id=${pid}`);
  await settled(page);
  const button = page.getByRole("button", { name: "Trim …" });
  // By keyboard, and no the first time.
  await button.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.getByText(`Trim redis-server (pid ${pid})?`).waitFor();
  assert.match(await dialog.innerText(), /not known in advance\..*One thread that waits in a system call is stopped/s);
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("2");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert.ok(page.url().includes("/allocator"), page.url());
  const before = await rssOf(pid);
  await button.click();
  await dialog.getByRole("button", { name: "Trim", exact: true }).press("Enter");
  const said = page.getByText(/RSS .* → .*: .* returned in [\d.]+.ms\./);
  await said.waitFor({ timeout: 20_000 });
  const [, from, to, returned] = /RSS (.*) → (.*): (.*) returned/.exec(await said.innerText()).map((part) => (/iB$/.test(part) ? bytesIn(part) : 0));
  const near = (a, b) => Math.abs(a - b) < 2 ** 20;
  assert.ok(returned > 5 * 2 ** 20 && near(from - to, returned) && near(from, before) && near(to, await rssOf(pid)), await said.innerText());
  assert.match(await text(page), /mallctl.* on thread \d+ \(.*\), which was stopped for [\d.]+ ms\./);
  assert.deepEqual(await violationsInBothThemes(page), []);
  // The page of a process that cannot be trimmed offers no trim.
  const { sources } = await (await fetch(`${own.origin}/api/v1/sources`, { headers: { Authorization: `Bearer ${own.token}` } })).json();
  await page.goto(`${own.origin}/allocator?id=${sources.find((entry) => !entry.is_running).id}`);
  await page.getByText("The process is gone,").waitFor();
  assert.equal(await button.count(), 0);
  await page.context().close();
  assert.deepEqual(browser.errors.splice(0), []);
});

test("a trim of glibc's malloc returns what was predicted, and a refusal says why", async (context) => {
  await place.profiled(await place.compile("freed.c", "refused"), "100");
  const pid = await place.pid("refused");
  // Stopped, it would not end.
  context.after(() => process.kill(pid, "SIGCONT"));
  const predicted = (await place.json("explain", String(pid))).statistics.arenas.reduce((sum, arena) => sum + arena.releasable_bytes, 0);
  const own = await place.serve("--allow-actions", String(pid));
  const page = await browser.page(own.address);
  await page.goto(`${own.origin}/allocator`);
  await settled(page);
  const trim = async (button) => {
    await page.getByRole("button", { name: "Trim …" }).nth(button).click();
    const asks = await page.getByRole("dialog").innerText();
    await page.getByRole("dialog").getByRole("button", { name: "Trim", exact: true }).click();
    return asks;
  };
  process.kill(pid, "SIGSTOP");
  await trim(0);
  await page.getByText("Not trimmed:").waitFor({ timeout: 20_000 });
  assert.match(await text(page), /Not trimmed: .*stopped/);
  process.kill(pid, "SIGCONT");
  // Trims with the button of the advice.
  const asks = await trim(1);
  const said = page.getByText(/ returned in /);
  await said.waitFor({ timeout: 5_000 }).catch(async () => assert.fail(await text(page)));
  const near = (a, b) => Math.abs(a - b) <= 0.05 * predicted + 2 ** 16;
  assert.ok(near(bytesIn(/predicted to return ([\d.]+\s.iB)/.exec(asks)[1]), predicted), asks);
  assert.ok(near(bytesIn(/: (.*) returned/.exec(await said.innerText())[1]), predicted), `${predicted}: ${await said.innerText()}`);
  await page.context().close();
  assert.deepEqual(browser.errors.splice(0), []);
});
