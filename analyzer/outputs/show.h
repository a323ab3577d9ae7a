// Lists records, for people or as JSON Lines, as they come from the files: one process at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/listing.h"
#include "records.h"
#include "run.h"

namespace titan::analyzer {

struct ShowOptions {
    std::set<int> ranks;       // empty: all
    std::string communicator;  // name or id or the start of an id
    std::optional<std::pair<uint64_t, uint64_t>> sequences;
    std::optional<std::pair<int64_t, int64_t>> steps;
    std::string state;
    std::string op;
    size_t last = 0;                            // per rank, 0: all
    RecordKind kind = RecordKind::kCollective;  // calls of either recorder
    bool json = false;
    ListingOptions table;

    // The journal has such records, with steps.
    bool is_journaled() const {
        return kind == RecordKind::kMarker || kind == RecordKind::kStep || kind == RecordKind::kStepCalls ||
               kind == RecordKind::kExtremes;
    }
};

struct Shown {
    std::string nothing;             // why none was listed, empty where some were
    std::vector<std::string> notes;  // on what is missing
};

// Calls write(text) with whole lines.
Shown show(const Run& run, const ShowOptions& options, const std::function<void(const std::string&)>& write);

}  // namespace titan::analyzer
