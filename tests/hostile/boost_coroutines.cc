/* Boost.Context: fibers on pooled, protected and plain stacks, that allocate, throw and are destroyed half-way.
   build: -lboost_context */
#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ctx = boost::context;

static long made, caught;

template <class Allocator>
static ctx::fiber work(Allocator allocator, int number) {
    return ctx::fiber(std::allocator_arg, allocator, [number](ctx::fiber &&back) {
        std::map<int, std::string> own;
        for (int turn = 0; turn < 50; turn++) {
            own[turn] = std::string(10 + number * turn % 300, 'x');
            made++;
            try {
                if (turn % 10 == 3) throw std::runtime_error(std::string(100, 'e'));
            } catch (const std::runtime_error &) {
                caught++;
            }
            back = std::move(back).resume();
        }
        return std::move(back);
    });
}

int main() {
    ctx::pooled_fixedsize_stack pool(64 << 10);
    std::vector<ctx::fiber> fibers;
    for (int i = 0; i < 60; i++) {
        if (i % 3 == 0) fibers.push_back(work(pool, i));
        if (i % 3 == 1) fibers.push_back(work(ctx::protected_fixedsize_stack(64 << 10), i));
        if (i % 3 == 2) fibers.push_back(work(ctx::fixedsize_stack(64 << 10), i));
    }
    for (int turn = 0; turn < 51; turn++) {
        for (size_t i = 0; i < fibers.size(); i++) {
            if (fibers[i]) fibers[i] = std::move(fibers[i]).resume();
            // Unwound from where it stands.
            if (turn == 20 && i % 5 == 0) fibers[i] = ctx::fiber();
        }
    }
    std::printf("%ld made, %ld caught\n", made, caught);
}
