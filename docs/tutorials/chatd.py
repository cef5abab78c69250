"""A server of chats that needs much memory: it compresses what each client gets, and keeps a compressor for each of them.

It simulates the clients itself.
"""

import time
import zlib


class Client:
    def __init__(self, number):
        self.name = f"client {number}"
        # As permessage-deflate of WebSocket has it: the window goes on from message to message.
        self.compressor = zlib.compressobj(level=6, wbits=-15, memLevel=8)

    def send(self, text):
        return self.compressor.compress(text) + self.compressor.flush(zlib.Z_SYNC_FLUSH)


def accept(count):
    return [Client(number) for number in range(count)]


def load_history():
    return [b"%d: %s" % (line, b"hello " * 200) for line in range(5000)]


history = load_history()
clients = accept(300)
sent = sum(len(client.send(history[0])) for client in clients)
print("ready", sent > 0, flush=True)
time.sleep(3600)
