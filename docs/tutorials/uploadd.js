// A server of uploads that leaks: it remembers each body until the upload is confirmed, and a failed one never is.
// It simulates the clients itself.

const waiting = new Map();

function rememberBody(id, size) {
  waiting.set(id, Buffer.alloc(size, 'x'));
}

function confirm(id) {
  waiting.delete(id);
}

function handleUpload(id) {
  rememberBody(id, 50000);
  if (id % 10 > 0) return confirm(id);
}

const templates = [];
function loadTemplates() {
  for (let i = 0; i < 100; i++) templates.push(Buffer.alloc(100000, 't'));
}

loadTemplates();
let id = 0;
function serve() {
  for (let i = 0; i < 100; i++) handleUpload(id++);
  if (id < 20000) return setImmediate(serve);
  console.log('ready', process.memoryUsage().heapUsed < 50e6);
  setTimeout(() => {}, 3600e3);
}
serve();
