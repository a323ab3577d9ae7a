// Rows of a table in memory, group by group: of each group its columns once, and of each row the others as differences
// to the row before, in a few bytes. For GROUP BY and DISTINCT, which go through them in the order of the groups.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rows.h"

namespace titan::analyzer {

class GroupedRows {
  public:
    // `wanted` as of SqlRows; `order`: columns of the groups, and their order.
    GroupedRows(const std::vector<SqlColumn>& columns, uint64_t wanted, std::vector<OrderColumn> order);

    void add(const std::function<Json(size_t column)>& cell, const std::vector<Condition>& conditions);
    uint64_t bytes() const;

    // Goes to the first row, and to the next one; false: there is none.
    bool rewind();
    bool next();
    const Cell& at(size_t column) const { return row_[column]; }
    const std::string& text(const Cell& cell) const { return heads_.text(cell); }

  private:
    // Bytes of a group lie in chunks, each twice as large as the one before.
    struct Chunk {
        Chunk* next;
        uint32_t size_bytes;
        uint32_t used_bytes;
        unsigned char* bytes() { return reinterpret_cast<unsigned char*>(this + 1); }
    };
    struct Group {
        Chunk* first = nullptr;
        Chunk* last = nullptr;
        uint64_t more_rows = 0;  // than the first one
    };
    static constexpr size_t kSlabBytes = 1 << 20;

    uint32_t& place_of(uint64_t hash);
    void grow_table();
    void append(Group& group, const unsigned char* bytes, size_t size_bytes);
    Chunk* new_chunk(size_t size_bytes);
    unsigned char take_byte();
    uint64_t take_number();
    void begin_group();
    void read_row();

    std::vector<size_t> others_;  // wanted columns that are not of the groups
    std::vector<OrderColumn> order_;
    const std::vector<SqlColumn>& columns_;
    SqlRows heads_;  // the first row of each group
    std::vector<Group> groups_;
    std::vector<int64_t> before_;  // of each group and other column
    std::vector<uint32_t> table_;  // groups + 1, open addressing
    std::vector<std::unique_ptr<unsigned char[]>> slabs_;
    size_t slab_used_bytes_ = kSlabBytes;

    std::vector<uint32_t> sorted_;  // groups
    size_t group_ = 0;              // the place of this one among them
    uint64_t rows_left_ = 0;
    Chunk* chunk_ = nullptr;
    size_t at_byte_ = 0;
    std::vector<int64_t> newest_;  // by other column
    std::vector<Cell> row_;
};

}  // namespace titan::analyzer
