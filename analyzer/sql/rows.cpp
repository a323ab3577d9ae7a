#include "rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/hash.h"

namespace titan::analyzer {
namespace {

uint64_t hash_of(double number) { return std::hash<double>()(number); }
uint64_t hash_of(const std::string& text) { return std::hash<std::string>()(text); }

template <typename T>
bool compares(const T& left, int op, const T& right) {
    switch (op) {
        case SQLITE_INDEX_CONSTRAINT_EQ: return left == right;
        case SQLITE_INDEX_CONSTRAINT_LT: return left < right;
        case SQLITE_INDEX_CONSTRAINT_LE: return left <= right;
        case SQLITE_INDEX_CONSTRAINT_GT: return left > right;
        case SQLITE_INDEX_CONSTRAINT_GE: return left >= right;
        default: return true;
    }
}

// As numbers of 64 bits are rounded where they are compared with fractions.
int or_equal(int op) {
    return op == SQLITE_INDEX_CONSTRAINT_LT   ? SQLITE_INDEX_CONSTRAINT_LE
           : op == SQLITE_INDEX_CONSTRAINT_GT ? SQLITE_INDEX_CONSTRAINT_GE
                                              : op;
}

}  // namespace

std::pair<Cell::Kind, uint64_t> identity_of(const Cell& cell) {
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

uint64_t Condition::hash() const { return value.kind == Cell::Kind::kText ? hash_of(text) : hash_of(value.number()); }

SqlRows::SqlRows(const std::vector<SqlColumn>& columns, uint64_t wanted) : columns_(columns), cells_(columns.size()) {
    for (size_t i = 0; i < columns.size(); ++i) {
        if ((wanted & bit_of(i)) != 0) {
            wanted_.push_back(i);
        }
    }
}

uint32_t SqlRows::place_of(std::string_view text) {
    const auto [known, is_new] = places_.try_emplace(std::string(text), static_cast<uint32_t>(texts_.size()));
    if (is_new) {
        texts_.push_back(&known->first);
        text_bytes_ += text.size() + sizeof(std::string) * 3;
    }
    return known->second;
}

// SQL knows infinite numbers, and null in place of one that is none.
Cell SqlRows::cell_of(const Json& value, const SqlColumn& column) {
    Cell cell;
    const auto set_real = [&cell](double real) {
        cell.kind = std::isnan(real) ? Cell::Kind::kNull : Cell::Kind::kReal;
        cell.real = std::isnan(real) ? 0 : real;
    };
    if (const auto integer = value.integer()) {
        cell.kind = Cell::Kind::kInteger;
        cell.integer = *integer;
    } else if (const auto natural = value.natural()) {
        cell.kind = Cell::Kind::kInteger;
        cell.integer = static_cast<int64_t>(*natural);
    } else if (const auto number = value.number()) {
        set_real(*number);
    } else if (const auto truth = value.boolean()) {
        cell.kind = Cell::Kind::kInteger;
        cell.integer = *truth ? 1 : 0;
    } else if (const auto text = value.text(); text && column.is_real()) {
        constexpr double kInfinite = std::numeric_limits<double>::infinity();
        set_real(*text == "inf" ? kInfinite : *text == "-inf" ? -kInfinite : std::nan(""));
    } else if (text) {
        cell.kind = Cell::Kind::kText;
        cell.text = place_of(*text);
    } else if (const std::string list = column.type == "list" ? value.dump() : "null"; list != "null") {
        cell.kind = Cell::Kind::kText;
        cell.text = place_of(list);
    }
    return cell;
}

bool SqlRows::meets(const Cell& cell, const Condition& condition) const {
    using Kind = Cell::Kind;
    const Cell& wanted = condition.value;
    if (cell.kind == Kind::kNull || wanted.kind == Kind::kNull) {
        return false;
    }
    if (cell.kind == Kind::kText && wanted.kind == Kind::kText) {
        return compares(text(cell), condition.op, condition.text);
    }
    if (cell.kind == Kind::kInteger && wanted.kind == Kind::kInteger) {
        return compares(cell.integer, condition.op, wanted.integer);
    }
    const bool numbers = cell.kind != Kind::kText && wanted.kind != Kind::kText;
    return !numbers || compares(cell.number(), or_equal(condition.op), wanted.number());
}

bool SqlRows::meets(const std::function<Json(size_t)>& cell, const std::vector<Condition>& conditions) {
    return std::all_of(conditions.begin(), conditions.end(), [&](const Condition& condition) {
        return meets(cell_of(cell(condition.column), columns_[condition.column]), condition);
    });
}

void SqlRows::add(const std::function<Json(size_t)>& cell, const std::vector<Condition>& conditions) {
    if (!meets(cell, conditions)) {
        return;
    }
    for (const size_t column : wanted_) {
        cells_[column].push_back(cell_of(cell(column), columns_[column]));
    }
    ++count_;
}

uint64_t SqlRows::bytes() const { return text_bytes_ + count_ * wanted_.size() * sizeof(Cell); }

bool SqlRows::is_before(uint32_t row, uint32_t other, const std::vector<OrderColumn>& columns) const {
    const auto compared = [this](const Cell& a, const Cell& b) {
        using Kind = Cell::Kind;
        const auto type = [](const Cell& cell) {
            return cell.kind == Kind::kText ? 2 : cell.kind == Kind::kNull ? 0 : 1;
        };
        if (type(a) != type(b) || a.kind == Kind::kNull) {
            return type(a) - type(b);
        }
        if (a.kind == Kind::kText) {
            return text(a).compare(text(b));
        }
        const bool are_whole = a.kind == Kind::kInteger && b.kind == Kind::kInteger;
        const bool less = are_whole ? a.integer < b.integer : a.number() < b.number();
        const bool more = are_whole ? a.integer > b.integer : a.number() > b.number();
        return less ? -1 : more ? 1 : 0;
    };
    for (const auto& [column, descending] : columns) {
        if (const int order = compared(cells_[column][row], cells_[column][other]); order != 0) {
            return descending ? order > 0 : order < 0;
        }
    }
    return false;
}

// Column by column, rows of one group so far that are equal in it become a group of their own; the groups, which are
// few where it matters, are sorted; then rows are counted out.
std::vector<uint32_t> SqlRows::ordered_by(const std::vector<OrderColumn>& columns) const {
    using Key = std::tuple<uint32_t, Cell::Kind, uint64_t>;
    struct Hash {
        size_t operator()(const Key& key) const {
            return mix_hash(mix_hash(std::get<0>(key), static_cast<uint64_t>(std::get<1>(key))), std::get<2>(key));
        }
    };
    std::vector<uint32_t> groups(count_);
    std::vector<uint32_t> first_rows;  // by group
    for (const auto& [column, descending] : columns) {
        std::unordered_map<Key, uint32_t, Hash> numbers;
        first_rows.clear();
        for (size_t row = 0; row < count_; ++row) {
            const auto [kind, value] = identity_of(cells_[column][row]);
            const auto [known, is_new] =
                numbers.try_emplace({groups[row], kind, value}, static_cast<uint32_t>(first_rows.size()));
            if (is_new) {
                first_rows.push_back(static_cast<uint32_t>(row));
            }
            groups[row] = known->second;
        }
    }
    std::vector<uint32_t> sorted(first_rows.size());
    std::iota(sorted.begin(), sorted.end(), 0U);
    std::sort(sorted.begin(), sorted.end(),
              [&](uint32_t a, uint32_t b) { return is_before(first_rows[a], first_rows[b], columns); });
    std::vector<uint32_t> counts(sorted.size());
    for (const uint32_t group : groups) {
        ++counts[group];
    }
    std::vector<uint32_t> begins(sorted.size());
    uint32_t begin = 0;
    for (const uint32_t group : sorted) {
        begins[group] = begin;
        begin += counts[group];
    }
    std::vector<uint32_t> order(count_);
    for (size_t row = 0; row < count_; ++row) {
        order[begins[groups[row]]++] = static_cast<uint32_t>(row);
    }
    return order;
}

std::optional<uint64_t> SqlRows::hash(size_t row, const std::vector<Condition>& equal) const {
    uint64_t all = kHashOfNothing;
    for (const Condition& condition : equal) {
        const Cell& cell = at(row, condition.column);
        if (cell.kind == Cell::Kind::kNull) {
            return std::nullopt;
        }
        all = mix_hash(all, cell.kind == Cell::Kind::kText ? hash_of(text(cell)) : hash_of(cell.number()));
    }
    return all;
}

}  // namespace titan::analyzer
