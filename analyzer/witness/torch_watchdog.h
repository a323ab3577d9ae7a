// PyTorch's watchdogs as witnesses: who waited in which call, and whom they ended.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "testimony.h"

namespace titan::analyzer {

// Whether it is the group of all ranks, or one that the log does not name.
bool is_default_group(std::string_view group);
// "15(tp)" -> "tp"; "15" -> "group 15".
std::string group_name(std::string_view group);
// For comparing moments of which no year is told.
int64_t seconds_of_year(int month, int day, int second_of_day);
// A rank that its own watchdog ended, or that ended when one had found a timeout, is not the one that ended first.
void settle_ends_by_watchdogs(std::vector<Testimony>& all);

}  // namespace titan::analyzer
