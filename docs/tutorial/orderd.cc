// A server of orders that leaks: a session is closed at logout, and a third of the clients never log out.
//
//     g++ -O2 -g -o orderd orderd.cc
//     ./orderd [REQUESTS_PER_SECOND]

#include <chrono>
#include <cstdlib>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace shop {

// All that is for sale, read once: it is large, and no leak.
class Catalog {
  public:
    void load(long items) {
        for (long item = 0; item < items; item++)
            texts_.push_back("item " + std::to_string(item) + std::string(1000, '.'));
    }

  private:
    std::list<std::string> texts_;
};

// The latest 1,000 pages. It allocates all the time, and frees as much.
class PageCache {
  public:
    void get(long page) {
        if (pages_.size() == 1000)
            pages_.pop_front();
        pages_.push_back(std::string(8000, static_cast<char>(page)));
    }

  private:
    std::list<std::string> pages_;
};

class SessionManager {
  public:
    void open_session(long client) {
        sessions_[client] = std::vector<char>(8000, 'b'); // the basket
    }
    void logout(long client) {
        sessions_.erase(client);
    }

  private:
    std::map<long, std::vector<char>> sessions_;
};

class Server {
  public:
    Server() {
        catalog_.load(20'000);
    }
    void handle(long client) {
        sessions_.open_session(client);
        cache_.get(client);
        if (client % 3 > 0)
            sessions_.logout(client);
    }

  private:
    Catalog catalog_;
    PageCache cache_;
    SessionManager sessions_;
};

} // namespace shop

int main(int argc, char **argv) {
    const long each_time = (argc > 1 ? std::atol(argv[1]) : 1500) / 4;
    shop::Server server;
    long client = 0;
    // The clients come four times a second.
    for (auto time = std::chrono::steady_clock::now();; time += std::chrono::milliseconds(250)) {
        std::this_thread::sleep_until(time);
        for (long i = 0; i < each_time; i++)
            server.handle(client++);
    }
}
