"""A server of chats that needs much memory: it compresses what each client gets, and keeps a compressor for each of them.

It simulates the clients itself.
"""

import time
import zlib


class Client:
    def __init__(self):
        # As permessage-deflate of WebSocket has it: what was sent before helps to compress what is sent next.
        self.compressor = zlib.compressobj(level=1, wbits=-15)

    def send(self, text):
        return self.compressor.compress(text) + self.compressor.flush(zlib.Z_SYNC_FLUSH)


def accept(count):
    return [Client() for _ in range(count)]


def load_history():
    return [b"%d: %s" % (line, b"hello " * 200) for line in range(25000)]


history = load_history()
clients = accept(300)
page = b"".join(history[:80])
sent = sum(len(client.send(page)) for client in clients)
print("ready", sent > 0, flush=True)
time.sleep(3600)
