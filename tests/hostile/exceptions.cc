/* C++ exceptions through frames that allocate: thrown below sampled calls, rethrown, kept in exception_ptr across threads, out of
   constructors, past destructors that allocate, by length_error, and through C code that has unwind tables.
   representative */
#include <stdio.h>
#include <stdlib.h>

#include <exception>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static long destroyed, caught;

struct Allocates {
    std::string text = std::string(1000, 'x');
    ~Allocates() {
        std::string copy = text + text;
        destroyed += copy.size() == 2000;
    }
};

struct Throws : Allocates {
    std::unique_ptr<int[]> member{new int[100]};
    Throws() { throw std::runtime_error(std::string(500, 'm')); }
};

static int compare(const void *a, const void *b) {
    Allocates local;
    if (*(const int *)a == *(const int *)b) throw std::logic_error("equal");
    return *(const int *)a - *(const int *)b;
}

static void deep(int depth) {
    Allocates local;
    free(malloc(depth));
    if (depth == 0) throw std::out_of_range("bottom");
    try {
        deep(depth - 1);
    } catch (const std::exception &error) {
        caught += std::string(error.what()).size();
        throw;
    }
}

template <typename Work>
static void expect(Work work) {
    try {
        work();
        puts("nothing thrown");
    } catch (const std::exception &error) {
        caught += std::string(error.what()).size();
    }
}

static void all() {
    volatile std::size_t huge = std::numeric_limits<std::ptrdiff_t>::max();
    for (int i = 0; i < 30; i++) {
        expect([] { Throws thrown; });
        expect([] { delete new Throws; });
        expect([] { delete[] new Throws[10]; });
        expect([] { deep(40); });
        expect([] {
            int numbers[] = {3, 1, 2, 2};
            qsort(numbers, 4, sizeof *numbers, compare);
        });
        expect([&] { std::string text(huge + 1, 'x'); });
        expect([] { throw std::vector<int>(1000); });
    }
}

int main() {
    try {
        all();
    } catch (const std::vector<int> &thrown) {
        caught += thrown.size();
    }
    std::exception_ptr kept;
    std::thread([&] {
        try {
            deep(20);
        } catch (...) {
            kept = std::current_exception();
        }
    }).join();
    expect([&] { std::rethrow_exception(kept); });
    printf("%ld caught, %ld destroyed\n", caught, destroyed);
    return 0;
}
