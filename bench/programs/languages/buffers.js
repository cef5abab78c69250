// Keeps buffers, and objects of the JavaScript heap.
const kept = [];
function readFrames(count) {
  for (let i = 0; i < count; i++) kept.push(Buffer.alloc(64 << 10, i));
}
function makeRecords(count) {
  for (let i = 0; i < count; i++) kept.push({ id: i, name: 'record ' + i });
}
for (let i = 0; i < 20; i++) {
  readFrames(50);
  makeRecords(5000);
}
console.log('ready ' + process.memoryUsage().arrayBuffers);
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
