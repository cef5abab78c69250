#!/bin/sh
# The C++ compiler builds and runs a small program: driver, cc1plus with its pools, assembler, linker.
# time: 120
# recorded: cc1plus small
cat > small.cc << 'END'
#include <iostream>
#include <map>
#include <string>
int main() {
    std::map<std::string, int> counts;
    for (int i = 0; i < 1000; i++) counts[std::to_string(i % 77)] += i;
    for (auto &[word, count] : counts) std::cout << word << count << '\n';
}
END
g++ -O1 -std=c++17 small.cc -o small && ./small | cksum && cksum < small
