// Enough of the standard library to keep a compiler busy.
#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>

std::map<std::string, std::vector<int>> count(const std::vector<std::string> &words) {
  std::map<std::string, std::vector<int>> places;
  const std::regex word("[a-z]+");
  for (size_t at = 0; at < words.size(); at++) {
    if (std::regex_match(words[at], word)) places[words[at]].push_back(static_cast<int>(at));
  }
  for (auto &[name, list] : places) std::sort(list.begin(), list.end());
  return places;
}
