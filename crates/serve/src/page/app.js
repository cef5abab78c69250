// The token comes in the address's fragment, which no server gets, and leaves the address at once.
const KEY = "ramson-token";
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage.setItem(KEY, given);
  history.replaceState(null, "", location.pathname);
}

const element = (id) => document.getElementById(id);
const DOCUMENTS = ["report", "leaks", "doctor", "timeline"];
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

function bytes(value) {
  let power = 0;
  while (Math.abs(value) >= 1000 && power < UNITS.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${power ? value.toPrecision(3) : value} ${UNITS[power]}`;
}

async function ask(path) {
  const token = sessionStorage.getItem(KEY);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const reply = await fetch(path, { headers, credentials: "omit" });
  if (reply.status === 401) {
    sessionStorage.removeItem(KEY);
    element("enter").hidden = false;
  }
  if (!reply.ok) {
    const text = await reply.text();
    const isDocument = reply.headers.get("Content-Type") === "application/json";
    throw new Error(isDocument ? JSON.parse(text).message : text.trim());
  }
  return reply;
}

function say(text) {
  element("message").textContent = text;
}

// What a name or a value says is text, never markup.
function cell(row, text, isNumber) {
  const added = row.insertCell();
  added.textContent = text;
  if (isNumber) added.className = "number";
  return added;
}

function button(where, text, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", () => act().catch((error) => say(error.message)));
  where.append(made);
}

async function show(source, name) {
  say(`Reading ${name} of ${source.name} …`);
  const reply = await ask(`/api/v1/p/${source.id}/${name}`);
  const answer = element("answer");
  answer.querySelector("h2").textContent = `${name} of ${source.name}`;
  element("command").textContent = `The same on the command line: ramson ${name} ${source.source} --json`;
  answer.querySelector("pre").textContent = JSON.stringify(await reply.json(), null, 2);
  answer.hidden = false;
  say("");
}

async function save(source) {
  const reply = await ask(`/p/${source.id}/debug/pprof/heap`);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await reply.blob());
  link.download = `heap-${source.id}.pb.gz`;
  link.click();
  URL.revokeObjectURL(link.href);
}

function add(source) {
  const row = element("sources").tBodies[0].insertRow();
  cell(row, source.pid ?? "", true);
  cell(row, source.name);
  cell(row, source.state ?? "file");
  cell(row, source.rss === null ? "" : bytes(source.rss), true);
  cell(row, source.live === null ? "" : bytes(source.live.value), true);
  cell(row, source.live === null ? "" : bytes(source.live.half_width_95), true);
  const links = cell(row, "");
  for (const name of DOCUMENTS) button(links, name, () => show(source, name));
  button(links, "pprof", () => save(source));
}

async function list() {
  const all = await (await ask("/api/v1/sources")).json();
  element("sources").tBodies[0].replaceChildren();
  all.sources.forEach(add);
  element("sources").hidden = all.sources.length === 0;
  element("enter").hidden = true;
  const lines = all.sources.length === 0 ? ["no profiles. Start a program with “ramson run -- CMD”"] : [];
  say(lines.concat(all.unreadable).join("\n"));
}

element("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, element("token").value.trim());
  list().catch((error) => say(error.message));
});
list().catch((error) => say(error.message));
