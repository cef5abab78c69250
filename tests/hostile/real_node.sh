#!/bin/sh
# A run of node: code made at run time, buffers from malloc, workers, compression, timers, a garbage collector with threads.
# time: 120
# recorded: node
exec node - << 'END'
const { Worker } = require('worker_threads'), zlib = require('zlib'), crypto = require('crypto');
let hash = crypto.createHash('sha256');
for (let i = 0; i < 20000; i++) hash.update(Buffer.alloc(1 + i % 5000, i % 256));
console.log(hash.digest('hex'));
const packed = zlib.deflateSync(Buffer.from('abc'.repeat(200000)));
console.log(packed.length, zlib.inflateSync(packed).length);
const f = (n) => n < 2 ? n : f(n - 1) + f(n - 2);
console.log(f(25));
const code = "require('worker_threads').parentPort.postMessage(Buffer.alloc(1e6, 7).reduce((a, b) => a + b, 0))";
let left = 4;
for (let i = 0; i < 4; i++) new Worker(code, { eval: true }).on('message', (sum) => { if (--left === 0) console.log(sum); });
END
