#!/bin/sh
# LuaJIT: traces of machine code without unwind tables, which call malloc through the FFI.
# recorded: luajit
exec luajit - << 'END'
local ffi = require("ffi")
ffi.cdef [[ void *malloc(size_t); void *realloc(void *, size_t); void free(void *); ]]
local sum = 0
for i = 1, 200000 do
  local block = ffi.cast("uint8_t *", ffi.C.malloc(16 + i % 1000))
  block[0] = i % 256
  sum = sum + block[0]
  if i % 10 == 0 then block = ffi.cast("uint8_t *", ffi.C.realloc(block, 5000)) end
  ffi.C.free(block)
end
print(sum)
local t = {}
for i = 1, 100000 do t[#t + 1] = tostring(i) end
print(#table.concat(t))
END
