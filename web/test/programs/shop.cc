// A server that keeps its sessions, has a cache with a bound, and a nightly report whose memory stays pinned.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>
namespace acme {
struct Session { std::string user; std::vector<char> buffer; };
class SessionManager {
 public:
  __attribute__((noinline)) void open_session(int id) {
    auto session = std::make_unique<Session>();
    session->user = std::string(64, 'u');
    session->buffer.resize(8192, 'b');
    sessions_[id] = std::move(session);
    if (id % 4 == 0) sessions_.erase(id);
  }
 private:
  std::map<int, std::unique_ptr<Session>> sessions_;
};
class PageCache {
 public:
  __attribute__((noinline)) void get(int key) {
    auto &page = pages_[key % 2000];
    if (page.empty()) page.assign(4096 + key % 512, 'p');
  }
 private:
  std::map<int, std::string> pages_;
};
class Catalog {
 public:
  __attribute__((noinline)) void load() { for (int i = 0; i < 60000; i++) items_.push_back(std::string(200 + i % 100, 'c')); }
 private:
  std::vector<std::string> items_;
};
__attribute__((noinline)) void nightly(std::vector<char *> &kept) {
  std::vector<char *> all;
  for (int i = 0; i < 20000; i++) { char *row = (char *)malloc(2000); memset(row, 1, 2000); all.push_back(row); }
  for (size_t i = 0; i < all.size(); i++) { if (i % 500) free(all[i]); else kept.push_back(all[i]); }
}
}
__attribute__((noinline)) void handle(acme::SessionManager &m, acme::PageCache &c, int i) { m.open_session(i); c.get(i * 7); }
int main(int argc, char **argv) {
  acme::SessionManager m; acme::PageCache c; acme::Catalog catalog; catalog.load();
  std::vector<char *> kept;
  // Handles `first` requests at once; then as many a second as the second argument says, or none until its input ends.
  int first = argc > 1 ? atoi(argv[1]) : 4000, rate = argc > 2 ? atoi(argv[2]) : 0;
  int i = 1;
  for (; i <= first; i++) handle(m, c, i);
  acme::nightly(kept);
  puts("ready");
  fflush(stdout);
  if (rate == 0) return getchar() == 'q';
  for (;; i++) {
    handle(m, c, i);
    usleep(1000000 / rate);
  }
}
