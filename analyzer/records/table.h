// What a query sees as a table: columns, and rows that come in blocks, one process after the other.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
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

// A cell of a row: null, a number, or a text, which is borrowed from the row where that keeps it.
class SqlValue {
  public:
    enum class Kind : uint8_t { kNull, kInteger, kReal, kText };

    SqlValue(std::nullptr_t = nullptr) {}
    template <std::integral T>
    SqlValue(T value) : kind_(Kind::kInteger), integer_(static_cast<int64_t>(value)) {}
    SqlValue(double value) : kind_(Kind::kReal), real_(value) {}
    SqlValue(std::string_view text) : kind_(Kind::kText), text_(text) {}
    SqlValue(const char* text) : SqlValue(std::string_view(text)) {}
    SqlValue(const std::string& text) : SqlValue(std::string_view(text)) {}
    SqlValue(std::string&& text) : kind_(Kind::kText), own_(std::move(text)) {}
    SqlValue(const Json& value);  // a list is its text
    template <typename T>
    SqlValue(const std::optional<T>& value) : SqlValue(value ? SqlValue(*value) : SqlValue()) {}

    Kind kind() const { return kind_; }
    int64_t integer() const { return integer_; }
    double real() const { return real_; }
    std::string_view text() const { return own_.empty() ? text_ : std::string_view(own_); }

  private:
    Kind kind_ = Kind::kNull;
    union {
        int64_t integer_ = 0;
        double real_;
    };
    std::string_view text_;
    std::string own_;
};

// Asks for the columns of a row by their numbers.
using SqlRow = std::function<SqlValue(size_t column)>;

// Takes the rows of a block.
class RowSink {
  public:
    virtual ~RowSink() = default;
    // Asks for the columns that the query needs, before it returns. Throws where the query has to stop.
    virtual void add(const SqlRow& cell) = 0;
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

    // Its rows tell what processes did as the run shows it, not as their records do one by one.
    virtual bool needs_histories() const { return false; }
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
