// Every variant of operator new and delete: each site allocates two objects of its own size and deletes one with the
// variant of delete that belongs to it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

static void *volatile kept;
static int failures;

#define CHECK(truth) \
    do { \
        if (!(truth)) { \
            std::fprintf(stderr, "line %d: %s\n", __LINE__, #truth); \
            failures++; \
        } \
    } while (0)

#define PAIR(name, size, allocate, deallocate) \
    extern "C" __attribute__((noinline, noclone)) void name() { \
        void *first = (allocate), *second = (allocate); \
        std::memset(first, 1, size); \
        std::memset(second, 1, size); \
        void *pointer = first; \
        deallocate; \
        kept = second; \
    }

static const std::align_val_t aligned{128};

PAIR(site_new, 3001, ::operator new(3001), ::operator delete(pointer))
PAIR(site_new_sized, 3002, ::operator new(3002), ::operator delete(pointer, std::size_t(3002)))
PAIR(site_new_array, 3003, ::operator new[](3003), ::operator delete[](pointer))
PAIR(site_new_array_sized, 3004, ::operator new[](3004), ::operator delete[](pointer, std::size_t(3004)))
PAIR(site_new_nothrow, 3005, ::operator new(3005, std::nothrow), ::operator delete(pointer, std::nothrow))
PAIR(site_new_array_nothrow, 3006, ::operator new[](3006, std::nothrow), ::operator delete[](pointer, std::nothrow))
PAIR(site_new_aligned, 3072, ::operator new(3072, aligned), ::operator delete(pointer, aligned))
PAIR(site_new_array_aligned, 3200, ::operator new[](3200, aligned), ::operator delete[](pointer, aligned))
PAIR(site_new_aligned_sized, 3328, ::operator new(3328, aligned), ::operator delete(pointer, std::size_t(3328), aligned))
PAIR(site_new_array_aligned_sized, 3456, ::operator new[](3456, aligned),
     ::operator delete[](pointer, std::size_t(3456), aligned))
PAIR(site_new_aligned_nothrow, 3584, ::operator new(3584, aligned, std::nothrow),
     ::operator delete(pointer, aligned, std::nothrow))
PAIR(site_new_array_aligned_nothrow, 3712, ::operator new[](3712, aligned, std::nothrow),
     ::operator delete[](pointer, aligned, std::nothrow))
PAIR(site_malloc, 3013, std::malloc(3013), std::free(pointer))

struct Object {
    char bytes[3014];
};
PAIR(site_new_expression, 3014, new Object, delete static_cast<Object *>(pointer))

// The exception passes through a slow path of ours, whose unwind tables it needs.
extern "C" __attribute__((noinline, noclone)) void site_throws() {
    int caught = 0;
    for (int round = 0; round < 50; round++) {
        volatile std::size_t huge = std::size_t(1) << 62;
        try {
            kept = new char[huge];
        } catch (const std::bad_alloc &) {
            caught++;
        }
        try {
            kept = ::operator new(huge, aligned);
        } catch (const std::bad_alloc &) {
            caught++;
        }
        huge = ~std::size_t(0) - 1000;
        try {
            kept = ::operator new(huge);
        } catch (const std::bad_alloc &) {
            caught++;
        }
        CHECK(::operator new(huge, std::nothrow) == nullptr);
    }
    CHECK(caught == 150);
    kept = new char[3015];
}

int main(int argc, char **) {
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
    site_new();
    site_new_sized();
    site_new_array();
    site_new_array_sized();
    site_new_nothrow();
    site_new_array_nothrow();
    site_new_aligned();
    site_new_array_aligned();
    site_new_aligned_sized();
    site_new_array_aligned_sized();
    site_new_aligned_nothrow();
    site_new_array_aligned_nothrow();
    site_new_expression();
    site_malloc();
    // Debian's mimalloc is built without exceptions and aborts instead.
    if (argc > 1) site_throws();
    return failures != 0;
}
