// Chooses the calls to list, and says what there is if none fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "show.h"

namespace titan::analyzer {

// "AllReduce", "ncclAllReduce" and "all_reduce" are one operation.
std::string plain_name(std::string_view name);

// The words of a call by which a user may choose it.
struct CallWords {
    std::string_view communicator;
    std::string_view other_communicator;  // another name of it
    std::string_view communicator_id;     // a start of it will do
    std::string_view op;
    std::string_view other_op;  // another name of it
    std::string_view state;
    uint64_t number = 0;  // format::kNoSequence: none
    int64_t step = -1;
};

std::string lower_case(std::string_view text);
// Is the communicator of that name the wanted one (lower case)? "dp" is "dp", "dp:0" and "dp 0-3:6adff088".
bool is_called(std::string_view name, std::string_view wanted);

class ShowFilter {
  public:
    explicit ShowFilter(const ShowOptions& options);
    bool fits(const CallWords& call);
    // "no recorded call matches; there are: ranks 0-7; ...", empty where some do.
    std::string nothing_fits(const Run& run) const;

  private:
    using Words = std::set<std::string, std::less<>>;
    void note(const CallWords& call);

    const ShowOptions& options_;
    std::string op_;
    std::string communicator_;
    bool chooses_;  // choose by more than rank and number of rows
    size_t fitting_ = 0;
    bool op_was_there_ = false;     // in any call of the ranks chosen
    bool state_was_there_ = false;  // likewise
    Words communicators_, ops_, states_;
    uint64_t first_number_ = UINT64_MAX, last_number_ = 0;
    int64_t first_step_ = INT64_MAX, last_step_ = -1;
};

}  // namespace titan::analyzer
