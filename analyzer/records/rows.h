// Rows of a table in memory, of the columns that a query needs, and what it asks of them.
#pragma once

#include <sqlite3.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "table.h"

namespace titan::analyzer {

struct Cell {
    using Kind = SqlValue::Kind;
    Kind kind = Kind::kNull;
    uint32_t text = 0;  // its place in SqlRows
    union {
        int64_t integer = 0;
        double real;
    };

    double number() const { return kind == Kind::kReal ? real : static_cast<double>(integer); }
};

// A condition on a column: `op` is SQLITE_INDEX_CONSTRAINT_EQ, _LT, _LE, _GT or _GE. It may let rows pass that do not
// meet it, as SQLite looks again; it never keeps one from it that does.
struct Condition {
    size_t column = 0;
    int op = 0;
    Cell value{};  // null: no row meets it
    std::string text{};

    bool is_equal() const { return op == SQLITE_INDEX_CONSTRAINT_EQ; }
    // Equal of what is equal to it.
    uint64_t hash() const;
};

inline constexpr uint64_t kHashOfNothing = 1;

// The same of cells of a table that SQL calls equal, and of no others: 1 and 1.0 are.
inline std::pair<Cell::Kind, uint64_t> identity_of(const Cell& cell) {
    switch (cell.kind) {
        case Cell::Kind::kNull: break;
        case Cell::Kind::kText: return {Cell::Kind::kText, cell.text};
        case Cell::Kind::kInteger: return {Cell::Kind::kInteger, static_cast<uint64_t>(cell.integer)};
        case Cell::Kind::kReal: {
            constexpr double kLimit = 9.2e18;  // of 64 bits
            const bool is_whole = cell.real == std::floor(cell.real) && std::abs(cell.real) < kLimit;
            return is_whole ? std::pair(Cell::Kind::kInteger, static_cast<uint64_t>(static_cast<int64_t>(cell.real)))
                            : std::pair(Cell::Kind::kReal, std::bit_cast<uint64_t>(cell.real));
        }
    }
    return {Cell::Kind::kNull, 0};
}

struct OrderColumn {
    size_t column;
    bool descending;
};

class SqlRows {
  public:
    // `wanted`: a bit for each column, bit 63 for all from the 64th on.
    SqlRows(const std::vector<SqlColumn>& columns, uint64_t wanted);

    static constexpr uint64_t bit_of(size_t column) { return uint64_t{1} << (column < 63 ? column : 63); }
    // Whether the row meets the conditions.
    bool meets(const SqlRow& cell, const std::vector<Condition>& conditions);
    Cell cell_of(const SqlValue& value, const SqlColumn& column);
    // Adds the row if it meets the conditions, which are about wanted columns.
    void add(const SqlRow& cell, const std::vector<Condition>& conditions);

    size_t count() const { return count_; }
    uint64_t bytes() const;
    const Cell& at(size_t row, size_t column) const { return cells_[column][row]; }
    const std::string& text(const Cell& cell) const { return *texts_[cell.text]; }
    // Equal of rows that meet the same conditions of this kind, and to the hashes of these, joined by mix_hash from
    // kHashOfNothing on. Nothing where the row can meet none.
    std::optional<uint64_t> hash(size_t row, const std::vector<Condition>& equal) const;

    // All rows in the order of these columns, as SQL has it: null first, then numbers, then text by its bytes.
    std::vector<uint32_t> ordered_by(const std::vector<OrderColumn>& columns) const;

  private:
    uint32_t place_of(std::string_view text);
    bool meets(const Cell& cell, const Condition& condition) const;
    bool is_before(uint32_t row, uint32_t other, const std::vector<OrderColumn>& columns) const;

    const std::vector<SqlColumn>& columns_;
    std::vector<size_t> wanted_;
    std::vector<std::vector<Cell>> cells_;  // by column; empty where it is not wanted
    size_t count_ = 0;
    std::unordered_map<std::string, uint32_t> places_;
    std::vector<const std::string*> texts_;  // keys of `places_`
    std::array<uint32_t, 16> recent_{};      // places
    uint64_t text_bytes_ = 0;
};

// --- Rows of a table in memory, group by group: of each group its columns once, and of each row the others as
// differences to the row before, in a few bytes. For GROUP BY and DISTINCT, which go through them in the order of the
// groups.

class GroupedRows {
  public:
    // `wanted` as of SqlRows; `order`: columns of the groups, and their order.
    GroupedRows(const std::vector<SqlColumn>& columns, uint64_t wanted, std::vector<OrderColumn> order);

    void add(const SqlRow& cell, const std::vector<Condition>& conditions);
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
    std::vector<uint32_t> table_;  // groups + 1, open addressing; its size is a power of two
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
