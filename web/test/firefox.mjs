// Debian's Firefox over WebDriver BiDi: playwright-core drives only its own.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import WebSocket from "ws";

const LISTENS = /WebDriver BiDi listening on (ws:\/\/\S+)/;

/** One page. `errors` has what its console said, `requests` what it asked for besides itself. */
export class Firefox {
  errors = [];
  requests = [];
  #next = 1;
  #waiting = new Map();

  static async open() {
    const firefox = new Firefox();
    firefox.profile = await mkdtemp(join(tmpdir(), "ramson-firefox-"));
    // Its own home: it writes there, and looks for profiles of others.
    const environment = { ...process.env, HOME: firefox.profile, MOZ_HEADLESS: "1", MOZ_DISABLE_CONTENT_SANDBOX: "1" };
    const words = ["--headless", "--no-remote", "--profile", firefox.profile, "--remote-debugging-port", "0", "about:blank"];
    firefox.child = spawn("firefox-esr", words, { env: environment, stdio: ["ignore", "ignore", "pipe"] });
    const address = await new Promise((found, failed) => {
      let text = "";
      firefox.child.stderr.on("data", (bytes) => {
        text += bytes;
        const match = LISTENS.exec(text);
        if (match) found(match[1]);
      });
      firefox.child.on("error", failed);
      firefox.child.on("exit", (code) => failed(new Error(`firefox-esr ended with ${code}: ${text}`)));
    });
    firefox.socket = new WebSocket(`${address}/session`);
    await once(firefox.socket, "open");
    firefox.socket.on("message", (data) => firefox.#take(JSON.parse(data.toString())));
    await firefox.#send("session.new", { capabilities: {} });
    await firefox.#send("session.subscribe", { events: ["log.entryAdded", "network.beforeRequestSent"] });
    const { contexts } = await firefox.#send("browsingContext.getTree", {});
    firefox.context = contexts[0].context;
    return firefox;
  }

  #take(message) {
    if (message.id !== undefined) {
      const { resolve, reject } = this.#waiting.get(message.id);
      this.#waiting.delete(message.id);
      if (message.type === "error") reject(new Error(`${message.error}: ${message.message}`));
      else resolve(message.result);
    } else if (message.method === "log.entryAdded" && message.params.level === "error") {
      this.errors.push(message.params.text);
    } else if (message.method === "network.beforeRequestSent") {
      const { url } = message.params.request;
      if (message.params.context === this.context && url.split("#")[0] !== this.address) this.requests.push(url);
    }
  }

  #send(method, params) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.socket.send(JSON.stringify({ id, method, params }));
    });
  }

  async go(address) {
    this.address = address.split("#")[0];
    await this.#send("browsingContext.navigate", { context: this.context, url: address, wait: "complete" });
  }

  /** The value of an expression in the page, or of a promise. */
  async evaluate(expression) {
    const answer = await this.#send("script.evaluate", { expression, target: { context: this.context }, awaitPromise: true });
    if (answer.type !== "success") throw new Error(answer.exceptionDetails.text);
    return answer.result.value;
  }

  /** Waits until what the page shows matches this. */
  async shows(pattern) {
    const shown = await this.evaluate(`new Promise((found) => {
      const until = Date.now() + 20_000;
      const look = () => {
        const text = document.querySelector("main")?.innerText ?? "";
        if (${pattern}.test(text) || Date.now() > until) found(text);
        else setTimeout(look, 20);
      };
      look();
    })`);
    if (!pattern.test(shown)) throw new Error(`${pattern} is not shown: ${shown}`);
  }

  async close() {
    this.socket?.terminate();
    this.child.kill("SIGKILL");
    if (this.child.exitCode === null && this.child.signalCode === null) await once(this.child, "exit");
    await rm(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}
