// Rows of a table in memory, of the columns that a query needs, and what it asks of them.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "table.h"

namespace titan::analyzer {

struct Cell {
    enum class Kind : uint8_t { kNull, kInteger, kReal, kText };
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
std::pair<Cell::Kind, uint64_t> identity_of(const Cell& cell);

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
    bool meets(const std::function<Json(size_t column)>& cell, const std::vector<Condition>& conditions);
    Cell cell_of(const Json& value, const SqlColumn& column);
    // Adds the row if it meets the conditions, which are about wanted columns.
    void add(const std::function<Json(size_t column)>& cell, const std::vector<Condition>& conditions);

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
    uint64_t text_bytes_ = 0;
};

}  // namespace titan::analyzer
