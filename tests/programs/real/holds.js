// Holds buffers, by functions that V8 compiles; then waits, or ends.
const kept = [];
function holdBuffers(count) {
  for (let at = 0; at < count; at++) kept.push(Buffer.allocUnsafeSlow(20000));
}
function serve() {
  holdBuffers(10);
}
for (let round = 0; round < 100; round++) serve();
console.log('ready');
setTimeout(() => {}, process.argv[2] === 'wait' ? 1e8 : 0);
