// Keeps blocks that a function with a long name allocated, and frees every second one. Then it waits for its end; with any
// argument it dies by SIGKILL.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace acme {
namespace networking {
struct SessionManager {
  void *kept[20000];
  __attribute__((noinline)) void open_session(int at);
  __attribute__((noinline)) void serve_requests();
};

void SessionManager::open_session(int at) { kept[at] = malloc(900); }

void SessionManager::serve_requests() {
  for (int at = 0; at < 20000; at++) open_session(at);
  for (int at = 0; at < 20000; at += 2) {
    free(kept[at]);
    kept[at] = nullptr;
  }
}
} // namespace networking
} // namespace acme

static acme::networking::SessionManager manager;

int main(int count, char **) {
  manager.serve_requests();
  if (count > 1) raise(SIGKILL);
  puts("ready");
  fflush(stdout);
  for (;;) pause();
}
