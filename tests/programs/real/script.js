// Buffers, strings and JSON; ends with status 7.
const kept = [];
let length = 0;
for (let number = 0; number < 20000; number++) {
  const buffer = Buffer.alloc(100 + (number % 5000), number & 255);
  if (number % 10 === 0) kept.push(buffer);
  length += buffer.toString('base64').length;
}
const text = JSON.stringify(kept.slice(0, 200).map((buffer) => ({ length: buffer.length, first: buffer[0] })));
console.log(length, kept.length, text.length, JSON.parse(text)[10].length);
console.error('to standard error');
require('zlib').gzip(Buffer.concat(kept), (error, packed) => {
  console.log(error, require('zlib').gunzipSync(packed).length);
  process.exitCode = 7;
});
