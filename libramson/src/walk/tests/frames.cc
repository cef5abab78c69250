// The C++ part of frames.c: constructors, virtual functions, catch blocks, std::function.
#include <functional>
#include <memory>
#include <string>

struct tour {
    void (*visit)(void *);
    void *argument;
    void (*const *ways)(tour *, unsigned long seed, int depth);
    unsigned long way_count;
};

namespace {
struct Base {
    virtual ~Base() = default;
    virtual void go(tour *tour, unsigned long seed, int depth) = 0;
};

void on(tour *tour, unsigned long seed, int depth) {
    std::string text(seed % 40, 'x');
    if (depth == 0)
        tour->visit(tour->argument);
    else
        tour->ways[seed % tour->way_count](tour, seed / tour->way_count, depth - 1);
    asm volatile("" ::"r"(text.data()) : "memory");
}

struct Catching : Base {
    void go(tour *tour, unsigned long seed, int depth) override {
        try {
            throw std::string("thrown");
        } catch (const std::string &text) {
            on(tour, seed, depth);
            asm volatile("" ::"r"(text.data()) : "memory");
        }
    }
};

struct Calling : Base {
    void go(tour *tour, unsigned long seed, int depth) override {
        std::function<void()> call = [&] { on(tour, seed, depth); };
        call();
    }
};
} // namespace

extern "C" __attribute__((visibility("default"))) void way(tour *tour, unsigned long seed, int depth) {
    unsigned long next = seed * 6364136223846793005ul + 1442695040888963407ul;
    std::unique_ptr<Base> base;
    if (seed >> 33 & 1)
        base = std::make_unique<Catching>();
    else
        base = std::make_unique<Calling>();
    base->go(tour, next, depth);
}
