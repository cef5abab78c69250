// Programs under ramson, the server, and a browser in which every error is a failure.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, link, mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const here = import.meta.dirname ?? new URL(".", import.meta.url).pathname;
export const root = resolve(here, "../..");
const ramsonProgram = resolve(process.env.RAMSON ?? join(root, "target/release/ramson"));
const library = resolve(process.env.RAMSON_LIBRARY ?? join(root, "target/guest/libramson.so"));
const axe = join(root, "web/node_modules/axe-core/axe.min.js");
const run = promisify(execFile);

/** A directory with all profiles and the history of one test file; what runs in it ends with it. */
export class Place {
  static async make() {
    const place = new Place();
    place.directory = await mkdtemp(join(tmpdir(), "ramson-web-"));
    place.started = [];
    place.compiled = new Map();
    place.environment = {
      ...process.env,
      RAMSON_LIBRARY: library,
      RAMSON_DIR: place.directory,
      RAMSON_HISTORY: join(place.directory, "history.db"),
      XDG_CACHE_HOME: place.directory,
      TZ: "UTC",
    };
    await run("chmod", ["0700", place.directory]);
    return place;
  }

  path(name) {
    return join(this.directory, name);
  }

  /** A program of that name; a source is compiled once. */
  async compile(source, name) {
    const first = this.compiled.get(source);
    if (first !== undefined) {
      await link(await first, this.path(name));
      return this.path(name);
    }
    const compiler = { c: "gcc", cc: "g++", rs: "rustc" }[source.split(".").at(-1)];
    const optimised = compiler === "rustc" ? "-O" : "-O1";
    const made = run(compiler, ["-g", optimised, "-o", this.path(name), resolve(here, "programs", source)]).then(() => this.path(name));
    this.compiled.set(source, made);
    return made;
  }

  /** Runs a command of ramson, and returns what it prints. */
  async ramson(...words) {
    const { stdout } = await run(ramsonProgram, words, { env: this.environment, maxBuffer: 64 << 20 });
    return stdout;
  }

  /** The profile of a program that is gone. */
  async ended() {
    for (let tries = 0; tries < 50; tries += 1) {
      const dead = (await this.profiles()).find((entry) => !entry.is_running);
      if (dead) return dead.profile;
      await new Promise((wake) => setTimeout(wake, 100));
    }
    throw new Error("no program ended");
  }

  /** Starts a command that goes on until it is ended. */
  ramsonInBackground(...words) {
    return this.spawn(ramsonProgram, words);
  }

  async json(...words) {
    return JSON.parse(await this.ramson(...words, "--json"));
  }

  spawn(program, words) {
    const child = spawn(program, words, { env: this.environment, stdio: ["pipe", "pipe", "inherit"] });
    this.started.push(child);
    return child;
  }

  /** Starts a program under ramson, and waits for the line that it prints when it is ready. */
  profiled(...words) {
    return this.sampled("16K", /ready/i, ...words);
  }

  /** The same with another interval and another line. */
  async sampled(interval, isReady, ...words) {
    const child = this.spawn(ramsonProgram, ["run", "--interval", interval, "--max-overhead", "0", "--", ...words]);
    await heard(child, isReady);
    return child;
  }

  /** Runs a program under ramson to its end, whatever that is; its profile. */
  died(...words) {
    return this.diedBelow([], ...words);
  }

  /** The same in a control group with a limit. */
  diedOfLimit(limit, ...words) {
    return this.diedBelow([join(root, "docs/how-to/programs/limited.sh"), limit], ...words);
  }

  async diedBelow(before, ...words) {
    const [program, ...rest] = [...before, ramsonProgram, "run", "--interval", "16K", "--max-overhead", "0", "--", ...words];
    const child = spawn(program, rest, { env: this.environment, stdio: "ignore" });
    await once(child, "exit");
    const found = (await this.json("list")).profiles.find((entry) => !entry.is_running && entry.command.join(" ") === words.join(" "));
    return found.profile;
  }

  /** Starts a postmaster as its user, waits until it answers, and has a backend work; its process ID. */
  async postgres() {
    const home = this.path("postgres");
    await mkdir(join(home, "profiles"), { recursive: true });
    await run("chmod", ["0711", this.directory]);
    await run("chmod", ["0700", join(home, "profiles")]);
    for (const file of [ramsonProgram, library]) await copyFile(file, join(home, basename(file)));
    await run("chown", ["-R", "postgres:", home]);
    const versions = await readdir("/usr/lib/postgresql");
    const bin = join("/usr/lib/postgresql", versions.sort().at(-1), "bin");
    const as = ["-u", "postgres", "--", "env", "-C", home, `RAMSON_DIR=${join(home, "profiles")}`, `RAMSON_LIBRARY=${join(home, basename(library))}`];
    await run("runuser", [...as, join(bin, "initdb"), "-D", "data", "-U", "postgres", "-A", "trust", "--no-sync"]);
    const server = this.spawn("runuser", [...as, join(home, basename(ramsonProgram)), "run", "--interval", "16K", "--", join(bin, "postgres"), "-D", "data", "-k", home, "-c", "listen_addresses="]);
    server.stdout.resume();
    const query = (text) => run("runuser", [...as, join(bin, "psql"), "-h", home, "-d", "postgres", "-c", text]);
    for (let tries = 0; ; tries += 1) {
      try {
        await query("select 1");
        break;
      } catch (error) {
        if (tries > 100) throw error;
        await new Promise((wake) => setTimeout(wake, 100));
      }
    }
    const pid = Number((await readFile(join(home, "data/postmaster.pid"), "utf8")).split("\n")[0]);
    // Otherwise it waits for its clients to leave.
    server.stop = () => process.kill(pid, "SIGINT");
    // It goes away with the server.
    query("select count(md5(n::text)), pg_sleep(600) from generate_series(1, 1000) n").catch(() => undefined);
    return pid;
  }

  /** Profiles of programs that were made here; other tests run at the same time. */
  async profiles() {
    const { profiles } = await this.json("list");
    return profiles.filter((entry) => entry.command[0]?.startsWith(this.directory));
  }

  /** The process ID of the program that was started last under that name. */
  async pid(name) {
    return (await this.profiles()).find((entry) => entry.name === name).pid;
  }

  async serve(...words) {
    const child = this.spawn(ramsonProgram, ["serve", "--listen", "127.0.0.1:0", ...words]);
    const address = await heard(child, /^http.*#token=/);
    return { address, origin: new URL(address).origin, token: address.split("#token=")[1], child };
  }

  /** With its token in a file, which outlives the server. */
  async serveAt(listen, tokenFile, ...words) {
    const child = this.spawn(ramsonProgram, ["serve", "--listen", listen, "--token-file", tokenFile, ...words]);
    const { origin } = new URL(await heard(child, /^http/));
    return { origin, token: (await readFile(tokenFile, "utf8")).trim(), child };
  }

  async end() {
    await Promise.all(this.started.map(endOne));
    await rm(this.directory, { recursive: true, force: true });
  }
}

async function endOne(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  if (child.stop) child.stop();
  else child.kill("SIGTERM");
  await once(child, "exit");
}

/**
 * Waits for all of them, and returns their results; a failure is thrown when none is under way any more, so that what they started
 * can be ended.
 */
export async function together(...all) {
  const ended = await Promise.allSettled(all);
  const failed = ended.find((one) => one.status === "rejected");
  if (failed) throw failed.reason;
  return ended.map((one) => one.value);
}

/** The first line that a program prints which matches. */
export function heard(child, pattern) {
  return new Promise((found, failed) => {
    let text = "";
    child.stdout.on("data", (bytes) => {
      text += bytes;
      const matching = text.split("\n").slice(0, -1).find((one) => pattern.test(one));
      if (matching !== undefined) found(matching.trim());
    });
    child.on("exit", (code) => failed(new Error(`ended with ${code} before it was ready: ${text}`)));
  });
}

/** Errors in the console that are expected: a browser writes there what the server refuses, which some tests are about. */
const EXPECTED = /status of 4\d\d/;

/** Opens pages; `errors` has what the console, the page's policy and uncaught exceptions said. */
export class Browser {
  static async open() {
    const browser = new Browser();
    browser.chromium = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
    browser.errors = [];
    return browser;
  }

  async page(address, { theme = "light", width = 1280, height = 800 } = {}) {
    const context = await this.chromium.newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion: "reduce", timezoneId: "UTC" });
    await context.addInitScript({ path: axe });
    const page = await context.newPage();
    const note = (text) => this.errors.push(`${page.url()}: ${text}`);
    page.on("console", (message) => {
      if (message.type() === "error" && !EXPECTED.test(message.text())) note(message.text());
    });
    page.on("pageerror", (error) => note(error.stack ?? error.message));
    page.on("request", (request) => {
      const [asked, own] = [new URL(request.url()), new URL(address)];
      const isOwn = own.protocol === "file:" ? asked.pathname === own.pathname : asked.origin === own.origin;
      if (!isOwn) note(`asks ${request.url()}`);
    });
    await page.goto(address);
    return page;
  }

  /** A page that a test has left open would go on asking for what is new while the next one runs. */
  async closePages() {
    await Promise.all(this.chromium.contexts().map((context) => context.close()));
  }

  close() {
    return this.chromium.close();
  }
}

/** Nothing is on its way any more. */
export async function settled(page) {
  await page.waitForFunction(() => document.querySelector("main") !== null && !document.querySelector(".skeleton") && !/Reading|Looking at/.test(document.querySelector("main").textContent), null, { timeout: 20_000 });
}

/** Faults that axe finds on a page. */
export async function violations(page, rules) {
  const found = await page.evaluate((only) => globalThis.axe.run(document, { resultTypes: ["violations"], ...(only ? { runOnly: only } : {}) }), rules);
  return found.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")}`);
}

/** Faults that axe finds in either theme: the themes differ in nothing but their colours. */
export async function violationsInBothThemes(page) {
  const found = [];
  for (const rules of [undefined, ["color-contrast"]]) {
    const theme = await page.evaluate(() => document.documentElement.dataset.theme);
    found.push(...(await violations(page, rules)).map((one) => `${theme}: ${one}`));
    await page.getByRole("button", { name: "Theme:" }).click();
    await page.waitForFunction((before) => document.documentElement.dataset.theme !== before, theme);
  }
  return found;
}

/** As the command line writes it. */
export function bytes(of) {
  const { value, half_width_95 } = typeof of === "number" ? { value: of, half_width_95: 0 } : of;
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  let scaled = value;
  while (Math.round(scaled) >= 1024 && unit + 1 < units.length) {
    scaled /= 1024;
    unit += 1;
  }
  // Beside more than ±10%, two digits.
  if (half_width_95 > 0.1 * Math.abs(value)) return `${unit > 0 && scaled < 9.95 ? scaled.toFixed(1) : Number(scaled.toPrecision(2))} ${units[unit]}`;
  return unit === 0 ? `${Math.round(scaled)} B` : `${scaled.toFixed(scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2)} ${units[unit]}`;
}
