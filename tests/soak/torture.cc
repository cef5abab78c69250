// Threads that allocate, resize, hand over and free blocks, each filled by its key and checked when it is freed. A round's checksum depends on
// its number alone, so runs of different lengths agree as far as both came. Arguments: seconds. At the end it prints the bytes that are live and waits for the end of its input.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

namespace {
constexpr int kThreads = 4, kOperations = 100000, kSlots = 2048;

struct Block {
    uint64_t key = 0;
    size_t bytes = 0;
    unsigned char *memory = nullptr;
    int kind = 0;
};

uint64_t Next(uint64_t &state) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state * 0x2545f4914f6cdd1dull;
}

// Most are small; one in 64 is up to 64 KiB, one in 4,096 up to 2 MiB.
size_t SizeOf(uint64_t random) {
    const size_t most = random % 4096 == 0 ? 2 << 20 : random % 64 == 0 ? 64 << 10 : 512;
    return 1 + (random >> 16) % most;
}

void Fill(const Block &block) { memset(block.memory, static_cast<int>(block.key & 0xff), block.bytes); }

Block Make(uint64_t random) {
    Block block{random, SizeOf(random), nullptr, static_cast<int>(random >> 60 & 3)};
    void *memory = nullptr;
    switch (block.kind) {
        case 0: memory = malloc(block.bytes); break;
        case 1: memory = calloc(1, block.bytes); break;
        case 2: memory = ::operator new(block.bytes); break;
        default: if (posix_memalign(&memory, 64, block.bytes) != 0) memory = nullptr;
    }
    if (memory == nullptr) abort();
    block.memory = static_cast<unsigned char *>(memory);
    Fill(block);
    return block;
}

uint64_t Free(Block &block) {
    for (size_t i = 0; i < block.bytes; i++) {
        if (block.memory[i] != (block.key & 0xff)) fprintf(stderr, "torture: a block was changed\n"), abort();
    }
    const uint64_t sum = block.key ^ block.bytes;
    if (block.kind == 2) ::operator delete(block.memory); else free(block.memory);
    block = Block{};
    return sum;
}

void Resize(Block &block, uint64_t random) {
    if (block.memory == nullptr || block.kind == 2) return;
    block.bytes = SizeOf(random);
    block.memory = static_cast<unsigned char *>(realloc(block.memory, block.bytes));
    if (block.memory == nullptr) abort();
    Fill(block);
}

std::mutex handed_over_mutex[kThreads];
std::vector<Block> handed_over[kThreads];
std::vector<Block> blocks[kThreads];
uint64_t sums[kThreads];

void Round(int thread, uint64_t round) {
    uint64_t state = (round * kThreads + thread + 1) * 0x9e3779b97f4a7c15ull;
    for (int i = 0; i < kOperations; i++) {
        const uint64_t random = Next(state);
        Block &block = blocks[thread][random % kSlots];
        const int what = static_cast<int>(random >> 40 & 15);
        if (what == 0) {
            Resize(block, Next(state));
        } else if (what < 3 && block.memory != nullptr) {
            const int to = (thread + 1) % kThreads;
            std::lock_guard<std::mutex> lock(handed_over_mutex[to]);
            handed_over[to].push_back(block);
            block = Block{};
        } else {
            if (block.memory != nullptr) sums[thread] += Free(block);
            block = Make(Next(state));
        }
        if (i % 64 == 0) {
            std::vector<Block> mine;
            std::lock_guard<std::mutex> lock(handed_over_mutex[thread]);
            mine.swap(handed_over[thread]);
            for (Block &given : mine) sums[thread] += Free(given);
        }
    }
}
}  // namespace

int main(int, char **arguments) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(atoi(arguments[1]));
    for (auto &own : blocks) own.resize(kSlots);
    for (uint64_t round = 0; round == 0 || std::chrono::steady_clock::now() < end; round++) {
        std::vector<std::thread> threads;
        for (int thread = 0; thread < kThreads; thread++) threads.emplace_back(Round, thread, round);
        for (std::thread &thread : threads) thread.join();
        uint64_t sum = 0;
        for (int thread = 0; thread < kThreads; thread++) {
            for (Block &given : handed_over[thread]) sums[thread] += Free(given);
            std::vector<Block>().swap(handed_over[thread]);
            sum += sums[thread];
        }
        printf("round %llu %016llx\n", (unsigned long long)round, (unsigned long long)sum);
    }
    size_t live = 0;
    for (const auto &own : blocks) {
        live += kSlots * sizeof(Block);
        for (const Block &block : own) live += block.bytes;
    }
    printf("live %zu\n", live);
    fflush(stdout);
    while (getchar() != EOF) {}
}
