// Looks into the journals of running jobs again and again, for metrics that have become nan since. Reads only what a
// journal has that is new.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "journals.h"

namespace titan::analyzer {

struct NanMetric {
    std::string journal;  // path
    std::string name;
    int64_t step = -1;
    int64_t at_ns = 0;  // CLOCK_REALTIME of its host
    int32_t rank = -1;
    int32_t pid = 0;
    int64_t age_ns = 0;  // of its process, when the journal was last written
};

class NewMetrics {
  public:
    // The first nan of each metric of each attempt, once. What lies in a journal that was last written some minutes
    // before it is first looked at is not told.
    std::vector<NanMetric> look(const std::set<std::string>& journals);

  private:
    void look_into(const std::string& path, std::vector<NanMetric>& found);

    std::map<std::string, uint64_t> read_bytes_;          // of each journal
    std::set<std::pair<std::string, std::string>> told_;  // directory and metric
};

// The journals of this node among these paths.
std::set<std::string> of_this_node(const std::set<std::string>& journals);

// Whether a living process of this node has that variable in its environment.
bool has_variable(int32_t pid, const std::string& variable);

}  // namespace titan::analyzer
