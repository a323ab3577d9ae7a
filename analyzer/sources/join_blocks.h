// Blocks of one process's journal as one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "formats/container/journal_reader.h"

namespace titan::analyzer {

class BlockJoiner {
  public:
    explicit BlockJoiner(const format::RingHeader& header) { joined_.header = header; }

    // A block behind those before it; markers that no block has leave empty slots.
    void add(format::MarkerBlock block);
    // Markers that are older than all those of the others, on any tickets.
    void put_before(format::MarkerBlock block);
    const format::MarkerBlock& joined() const { return joined_; }

  private:
    void renumber(format::MarkerBlock& block);
    uint32_t text(const std::string& text);

    format::MarkerBlock joined_;
    std::map<std::string, uint32_t> texts_;
    std::unordered_map<uint64_t, uint32_t> sites_;  // by key
};

}  // namespace titan::analyzer
