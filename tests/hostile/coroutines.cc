/* C++20 coroutines: frames on the heap, resumed on other threads than they began on, destroyed while suspended.
   build: -std=c++20 */
#include <coroutine>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

struct Generator {
    struct promise_type {
        std::string current;
        Generator get_return_object() { return Generator{std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(std::string value) {
            current = std::move(value);
            return {};
        }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
    explicit Generator(std::coroutine_handle<promise_type> handle) : handle(handle) {}
    Generator(Generator &&other) : handle(std::exchange(other.handle, {})) {}
    ~Generator() {
        if (handle) handle.destroy();
    }
    bool next() {
        handle.resume();
        return !handle.done();
    }
};

static Generator words(int depth, int count) {
    std::vector<std::string> kept;
    for (int i = 0; i < count; i++) {
        kept.push_back(std::string(30 + i, 'a' + depth));
        co_yield kept.back();
        if (depth < 6) {
            auto inner = words(depth + 1, 3);
            while (inner.next()) co_yield inner.handle.promise().current + kept.back();
        }
    }
}

int main() {
    std::vector<Generator> suspended;
    std::mutex mutex;
    size_t total = 0;
    auto run = [&](int limit) {
        for (int i = 0; i < 30; i++) {
            auto generator = words(0, 4);
            size_t sum = 0;
            for (int step = 0; step < limit && generator.next(); step++) sum += generator.handle.promise().current.size();
            std::lock_guard lock(mutex);
            total += sum;
            suspended.push_back(std::move(generator));
        }
    };
    std::thread first(run, 500), second(run, 700);
    first.join();
    second.join();
    // Goes on with coroutines that other threads began.
    for (auto &generator : suspended) {
        for (int step = 0; step < 50 && generator.next(); step++) total += generator.handle.promise().current.size();
    }
    suspended.clear();
    std::printf("%zu characters\n", total);
}
