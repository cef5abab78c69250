// C++ names: a namespace, a template, a method.
#include <string>
#include <vector>

namespace storage {
template <typename Value> struct Shelf {
  std::vector<Value *> kept;
  __attribute__((noinline)) void put(const Value &value) { kept.push_back(new Value(value)); }
};
}  // namespace storage

int main() {
  storage::Shelf<std::string> shelf;
  for (int at = 0; at < 100; at++) shelf.put(std::string(100, 'x'));
  return shelf.kept.size() == 100 ? 0 : 1;
}
