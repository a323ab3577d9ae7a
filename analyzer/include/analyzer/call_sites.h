// From where a process made its NCCL calls (TITANTRACE_STACKS=collective), as its ring tells.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/stacks.h"
#include "formats/call_sites_image.h"
#include "formats/ring_image.h"

namespace titan::analyzer {

struct CallStack {
    std::vector<PythonSite> python;  // innermost first
    bool python_cut = false;
};

// Of one ring; numbers are CollectiveEntry::stack. The image must outlive it. Not thread-safe.
class CallSites {
  public:
    explicit CallSites(const format::RingImage& image) : image_(image.call_sites()) {}

    bool recorded() const { return !image_.empty(); }
    // Which Python it was, or why there are no Python frames; empty where none was asked for, or there is none.
    std::string python() const;
    // Empty for 0 and for unknown numbers.
    const CallStack& stack(uint32_t number);
    // "train.py:212 in step": the innermost frame that is not a framework's. Empty where there is none.
    const std::string& place(uint32_t number);

  private:
    struct Known {
        CallStack stack;
        std::string place;
    };
    const Known& known(uint32_t number);

    format::CallSitesImage image_;
    std::unordered_map<uint32_t, Known> known_;
};

}  // namespace titan::analyzer
