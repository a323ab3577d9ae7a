// What a query sees as a table: columns, and rows that come in blocks, one process after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/json_value.h"

namespace titan::analyzer {

struct SqlColumn {
    std::string name;
    std::string type;  // as in records.def: "number or null"
    std::string unit;  // empty: none
    std::string meaning;

    bool is_text() const { return type.starts_with("text") || type.starts_with("list"); }
    bool is_real() const { return type.starts_with("real"); }
};

// Takes the rows of a block.
class RowSink {
  public:
    virtual ~RowSink() = default;
    // Asks `cell` for the columns that the query needs, before it returns. Throws where the query has to stop.
    virtual void add(const std::function<Json(size_t column)>& cell) = 0;
};

// From the first to the last; nothing: all.
using RowSteps = std::optional<std::pair<int64_t, int64_t>>;

class SqlTable {
  public:
    SqlTable(std::string name, std::string meaning, std::vector<SqlColumn> columns)
        : name_(std::move(name)), meaning_(std::move(meaning)), columns_(std::move(columns)) {}
    SqlTable(const SqlTable&) = delete;
    SqlTable& operator=(const SqlTable&) = delete;
    virtual ~SqlTable() = default;

    const std::string& name() const { return name_; }
    const std::string& meaning() const { return meaning_; }
    const std::vector<SqlColumn>& columns() const { return columns_; }

    virtual size_t blocks() const { return 1; }
    // The rank of all rows of that block; nothing where it has those of several.
    virtual std::optional<int> rank_of(size_t) const { return std::nullopt; }
    // Of some steps alone where these are wanted: rows of others may come, too.
    virtual void read(size_t block, const RowSteps& steps, RowSink& sink) const = 0;

  private:
    std::string name_;
    std::string meaning_;
    std::vector<SqlColumn> columns_;
};

}  // namespace titan::analyzer
