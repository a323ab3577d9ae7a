// A list of what each item of another one is made into: mapped(processes, &Process::rank).
#pragma once

#include <functional>
#include <ranges>
#include <type_traits>
#include <vector>

namespace titan {

template <std::ranges::input_range Range, typename Make>
auto mapped(Range&& items, const Make& make) {
    std::vector<std::remove_cvref_t<std::invoke_result_t<const Make&, std::ranges::range_reference_t<Range>>>> made;
    if constexpr (std::ranges::sized_range<Range>) {
        made.reserve(std::ranges::size(items));
    }
    for (auto&& item : items) {
        made.push_back(std::invoke(make, item));
    }
    return made;
}

}  // namespace titan
