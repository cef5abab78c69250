// Input of cc1plus in the benchmark: templates of the standard library, as everyday C++ has them.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

struct Order {
    std::string customer;
    std::vector<std::pair<std::string, double>> lines;
    double total() const {
        double sum = 0;
        for (const auto &line : lines)
            sum += line.second;
        return sum;
    }
};

using Orders = std::unordered_map<std::string, std::unique_ptr<Order>>;

std::map<std::string, double> totals(const Orders &orders) {
    std::map<std::string, double> result;
    for (const auto &entry : orders)
        result[entry.second->customer] += entry.second->total();
    return result;
}

std::vector<std::string> largest(const Orders &orders, std::size_t count) {
    const auto sums = totals(orders);
    std::vector<std::pair<double, std::string>> sorted;
    for (const auto &[customer, sum] : sums)
        sorted.emplace_back(sum, customer);
    std::sort(sorted.rbegin(), sorted.rend());
    std::vector<std::string> names;
    for (std::size_t i = 0; i < std::min(count, sorted.size()); i++)
        names.push_back(sorted[i].second + ": " + std::to_string(sorted[i].first));
    return names;
}
