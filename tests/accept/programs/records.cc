// Reads records that it makes itself, and holds a part of them: most bytes are allocated in index_names, then in keep_rows, then in cache_texts.
// Arguments: rounds. Prints a sum of what it holds.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#define APART __attribute__((noinline))

static std::map<std::string, std::string> names;
static std::vector<std::unique_ptr<std::vector<int>>> rows;
static std::vector<std::string> texts;

static std::string text_of(unsigned number, size_t bytes) {
    std::string text = "record " + std::to_string(number);
    while (text.size() < bytes) text += text;
    return text;
}

APART void index_names(unsigned number) { names["name of " + std::to_string(number % 60000) + " in the index"] = text_of(number, 300); }

APART void keep_rows(unsigned number) {
    auto row = std::make_unique<std::vector<int>>();
    for (int i = 0; i < 40; i++) row->push_back(number + i);
    rows[number % rows.size()] = std::move(row);
}

APART void cache_texts(unsigned number) { texts[number % texts.size()] = text_of(number, 1000); }

int main(int argc, char **argv) {
    rows.resize(20000);
    texts.resize(2000);
    const unsigned rounds = argc > 1 ? atoi(argv[1]) : 1;
    for (unsigned number = 0; number < rounds; number++) {
        index_names(number);
        keep_rows(number * 7);
        if (number % 3 == 0) cache_texts(number);
    }
    size_t sum = 0;
    for (const auto &[name, text] : names) sum += name.size() + text.size();
    for (const auto &row : rows) sum += row ? row->size() : 0;
    for (const auto &text : texts) sum += text.size();
    printf("%zu\n", sum);
    fflush(stdout);
    quick_exit(0);
}
