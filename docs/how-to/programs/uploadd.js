// A server of uploads that leaks: it keeps each body until the upload is confirmed, and a third of them never are.
// It simulates the clients itself.

const waiting = new Map();

function rememberBody(id, size) {
  waiting.set(id, Buffer.alloc(size, 'x'));
}

function confirm(id) {
  waiting.delete(id);
}

function handleUpload(id) {
  rememberBody(id, 400000);
  if (id % 3 > 0) confirm(id);
}

const templates = [];
function loadTemplates() {
  for (let i = 0; i < 60; i++) templates.push(Buffer.alloc(200000, 't'));
}

loadTemplates();
let id = 0;
function serve() {
  for (let i = 0; i < 25; i++) handleUpload(id++);
  if (id < 300) return setImmediate(serve);
  console.log('ready', process.memoryUsage().heapUsed < 20e6);
  setTimeout(() => {}, 3600e3);
}
serve();
