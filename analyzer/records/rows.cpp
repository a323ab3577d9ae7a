#include "rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "formats/container/packed_number.h"

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

SqlValue::SqlValue(const Json& value) {
    if (const auto text = value.text()) {
        *this = std::string(*text);
    } else if (const auto integer = value.integer()) {
        *this = *integer;
    } else if (const auto natural = value.natural()) {
        *this = *natural;
    } else if (const auto number = value.number()) {
        *this = *number;
    } else if (const auto truth = value.boolean()) {
        *this = *truth;
    } else if (std::string list = value.dump(); list != "null") {
        *this = std::move(list);
    }
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
    // Names come again and again, a few at a time.
    const size_t slot = text.empty() ? 0 : (text.size() + static_cast<unsigned char>(text.back())) % recent_.size();
    if (recent_[slot] < texts_.size() && *texts_[recent_[slot]] == text) {
        return recent_[slot];
    }
    const auto [known, is_new] = places_.try_emplace(std::string(text), static_cast<uint32_t>(texts_.size()));
    if (is_new) {
        texts_.push_back(&known->first);
        text_bytes_ += text.size() + sizeof(std::string) * 3;
    }
    recent_[slot] = known->second;
    return known->second;
}

// SQL knows infinite numbers, and null in place of one that is none.
Cell SqlRows::cell_of(const SqlValue& value, const SqlColumn& column) {
    Cell cell;
    const auto set_real = [&cell](double real) {
        cell.kind = std::isnan(real) ? Cell::Kind::kNull : Cell::Kind::kReal;
        cell.real = std::isnan(real) ? 0 : real;
    };
    switch (value.kind()) {
        case Cell::Kind::kNull: break;
        case Cell::Kind::kInteger:
            cell.kind = Cell::Kind::kInteger;
            cell.integer = value.integer();
            break;
        case Cell::Kind::kReal: set_real(value.real()); break;
        case Cell::Kind::kText:
            if (column.is_real()) {
                constexpr double kInfinite = std::numeric_limits<double>::infinity();
                set_real(value.text() == "inf" ? kInfinite : value.text() == "-inf" ? -kInfinite : std::nan(""));
            } else {
                cell.kind = Cell::Kind::kText;
                cell.text = place_of(value.text());
            }
            break;
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

bool SqlRows::meets(const SqlRow& cell, const std::vector<Condition>& conditions) {
    return std::all_of(conditions.begin(), conditions.end(), [&](const Condition& condition) {
        return meets(cell_of(cell(condition.column), columns_[condition.column]), condition);
    });
}

void SqlRows::add(const SqlRow& cell, const std::vector<Condition>& conditions) {
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

// --- rows in groups

namespace {

// How a cell is written: in the lowest bits of its first number, above which a difference or the place of a text lies.
enum Coded : uint64_t { kNull, kReal, kWholeReal, kInteger, kText, kLongInteger };
constexpr unsigned kCodedBits = 3;

// `at(column)` is a cell of the row.
template <typename At>
uint64_t hash_of(const std::vector<OrderColumn>& order, const At& at) {
    uint64_t hash = kHashOfNothing;
    for (const OrderColumn& of : order) {
        const auto [kind, value] = identity_of(at(of.column));
        hash = mix_hash(mix_hash(hash, static_cast<uint64_t>(kind)), value);
    }
    return hash;
}

bool is_whole(double real) {
    constexpr double kLimit = 9e15;  // a double has all of these
    return std::abs(real) < kLimit && real == std::floor(real) && !(real == 0 && std::signbit(real));
}

// What the next row's differs little from.
int64_t whole_of(const Cell& cell) {
    const bool is_whole_real = cell.kind == Cell::Kind::kReal && is_whole(cell.real);
    return cell.kind == Cell::Kind::kInteger ? cell.integer : is_whole_real ? static_cast<int64_t>(cell.real) : 0;
}

}  // namespace

GroupedRows::GroupedRows(const std::vector<SqlColumn>& columns, uint64_t wanted, std::vector<OrderColumn> order)
    : order_(std::move(order)), columns_(columns), heads_(columns, wanted), table_(64), row_(columns.size()) {
    for (size_t column = 0; column < columns.size(); ++column) {
        const bool is_of_groups =
            std::any_of(order_.begin(), order_.end(), [column](const OrderColumn& of) { return of.column == column; });
        if ((wanted & SqlRows::bit_of(column)) != 0 && !is_of_groups) {
            others_.push_back(column);
        }
    }
    newest_.resize(others_.size());
}

uint64_t GroupedRows::bytes() const {
    return heads_.bytes() + slabs_.size() * kSlabBytes + groups_.capacity() * sizeof(Group) +
           before_.capacity() * sizeof(int64_t) + table_.capacity() * sizeof(uint32_t);
}

GroupedRows::Chunk* GroupedRows::new_chunk(size_t size_bytes) {
    const size_t all_bytes = sizeof(Chunk) + size_bytes;
    if (kSlabBytes - slab_used_bytes_ < all_bytes) {
        slabs_.push_back(std::make_unique_for_overwrite<unsigned char[]>(kSlabBytes));
        slab_used_bytes_ = 0;
    }
    auto* const chunk = reinterpret_cast<Chunk*>(slabs_.back().get() + slab_used_bytes_);
    *chunk = {nullptr, static_cast<uint32_t>(size_bytes), 0};
    slab_used_bytes_ += all_bytes;
    return chunk;
}

void GroupedRows::append(Group& group, const unsigned char* bytes, size_t size_bytes) {
    constexpr uint32_t kLeastBytes = 16;
    constexpr uint32_t kMostBytes = 16 << 10;
    while (size_bytes != 0) {
        if (group.last == nullptr || group.last->used_bytes == group.last->size_bytes) {
            Chunk* const fresh =
                new_chunk(group.last == nullptr ? kLeastBytes : std::min(2 * group.last->size_bytes, kMostBytes));
            (group.last == nullptr ? group.first : group.last->next) = fresh;
            group.last = fresh;
        }
        Chunk& chunk = *group.last;
        const size_t fit = std::min<size_t>(size_bytes, chunk.size_bytes - chunk.used_bytes);
        std::memcpy(chunk.bytes() + chunk.used_bytes, bytes, fit);
        chunk.used_bytes += static_cast<uint32_t>(fit);
        bytes += fit;
        size_bytes -= fit;
    }
}

// Where the group of that key is in the table, or is to be put.
uint32_t& GroupedRows::place_of(uint64_t hash) {
    const auto is_it = [this](uint32_t group) {
        return std::all_of(order_.begin(), order_.end(), [&](const OrderColumn& of) {
            return identity_of(heads_.at(group, of.column)) == identity_of(row_[of.column]);
        });
    };
    const size_t mask = table_.size() - 1;
    size_t place = hash & mask;
    while (table_[place] != 0 && !is_it(table_[place] - 1)) {
        place = (place + 1) & mask;
    }
    return table_[place];
}

void GroupedRows::grow_table() {
    table_.assign(2 * table_.size(), 0);
    const size_t mask = table_.size() - 1;
    for (uint32_t group = 0; group < groups_.size(); ++group) {
        size_t place = hash_of(order_, [&](size_t column) { return heads_.at(group, column); }) & mask;
        while (table_[place] != 0) {
            place = (place + 1) & mask;
        }
        table_[place] = group + 1;
    }
}

void GroupedRows::add(const SqlRow& cell, const std::vector<Condition>& conditions) {
    if (!heads_.meets(cell, conditions)) {
        return;
    }
    for (const OrderColumn& of : order_) {
        row_[of.column] = heads_.cell_of(cell(of.column), columns_[of.column]);
    }
    uint32_t& place = place_of(hash_of(order_, [this](size_t column) { return row_[column]; }));
    if (place == 0) {
        heads_.add(cell, {});
        groups_.emplace_back();
        place = static_cast<uint32_t>(groups_.size());
        std::transform(others_.begin(), others_.end(), std::back_inserter(before_),
                       [&](size_t column) { return whole_of(heads_.at(place - 1, column)); });
        if (groups_.size() > table_.size() / 2) {
            grow_table();
        }
        return;
    }
    const size_t group = place - 1;
    ++groups_[group].more_rows;
    for (size_t i = 0; i < others_.size(); ++i) {
        const Cell value = heads_.cell_of(cell(others_[i]), columns_[others_[i]]);
        unsigned char coded[format::kMostVarintBytes + sizeof(uint64_t)];
        size_t length = 0;
        const auto put = [&](Coded kind, uint64_t above, const void* raw = nullptr) {
            length = format::write_varint(above << kCodedBits | kind, coded);
            if (raw != nullptr) {
                std::memcpy(coded + length, raw, sizeof(uint64_t));
                length += sizeof(uint64_t);
            }
        };
        const auto put_whole = [&](Coded kind, int64_t whole) {
            int64_t& before = before_[group * others_.size() + i];
            const uint64_t apart = format::zigzag(static_cast<uint64_t>(whole) - static_cast<uint64_t>(before));
            if (apart >> (64 - kCodedBits) == 0) {
                put(kind, apart);
                before = whole;
            } else {
                put(kLongInteger, 0, &whole);
            }
        };
        switch (value.kind) {
            case Cell::Kind::kNull: put(kNull, 0); break;
            case Cell::Kind::kText: put(kText, value.text); break;
            case Cell::Kind::kInteger: put_whole(kInteger, value.integer); break;
            case Cell::Kind::kReal:
                is_whole(value.real) ? put_whole(kWholeReal, static_cast<int64_t>(value.real))
                                     : put(kReal, 0, &value.real);
                break;
        }
        append(groups_[group], coded, length);
    }
}

bool GroupedRows::rewind() {
    sorted_ = heads_.ordered_by(order_);
    group_ = 0;
    if (!sorted_.empty()) {
        begin_group();
    }
    return !sorted_.empty();
}

void GroupedRows::begin_group() {
    const uint32_t group = sorted_[group_];
    for (const OrderColumn& of : order_) {
        row_[of.column] = heads_.at(group, of.column);
    }
    for (size_t i = 0; i < others_.size(); ++i) {
        row_[others_[i]] = heads_.at(group, others_[i]);
        newest_[i] = whole_of(row_[others_[i]]);
    }
    rows_left_ = groups_[group].more_rows;
    chunk_ = groups_[group].first;
    at_byte_ = 0;
}

bool GroupedRows::next() {
    if (rows_left_ != 0) {
        --rows_left_;
        read_row();
        return true;
    }
    if (++group_ == sorted_.size()) {
        return false;
    }
    begin_group();
    return true;
}

unsigned char GroupedRows::take_byte() {
    if (at_byte_ == chunk_->used_bytes) {
        chunk_ = chunk_->next;
        at_byte_ = 0;
    }
    return chunk_->bytes()[at_byte_++];
}

uint64_t GroupedRows::take_number() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        const uint64_t byte = take_byte();
        value |= (byte & 0x7F) << shift;
        if (byte < 0x80) {
            return value;
        }
    }
}

void GroupedRows::read_row() {
    for (size_t i = 0; i < others_.size(); ++i) {
        const uint64_t coded = take_number();
        const uint64_t above = coded >> kCodedBits;
        const auto kind = static_cast<Coded>(coded & ((1 << kCodedBits) - 1));
        unsigned char raw[sizeof(uint64_t)];
        if (kind == kReal || kind == kLongInteger) {
            std::generate(std::begin(raw), std::end(raw), [this] { return take_byte(); });
        }
        Cell& cell = row_[others_[i]];
        cell = {};
        if (kind == kInteger || kind == kWholeReal) {
            newest_[i] = static_cast<int64_t>(static_cast<uint64_t>(newest_[i]) + format::unzigzag(above));
        }
        switch (kind) {
            case kNull: break;
            case kText:
                cell.kind = Cell::Kind::kText;
                cell.text = static_cast<uint32_t>(above);
                break;
            case kInteger:
                cell.kind = Cell::Kind::kInteger;
                cell.integer = newest_[i];
                break;
            case kLongInteger:
                cell.kind = Cell::Kind::kInteger;
                std::memcpy(&cell.integer, raw, sizeof(raw));
                break;
            case kWholeReal:
                cell.kind = Cell::Kind::kReal;
                cell.real = static_cast<double>(newest_[i]);
                break;
            case kReal:
                cell.kind = Cell::Kind::kReal;
                std::memcpy(&cell.real, raw, sizeof(raw));
                break;
        }
    }
}

}  // namespace titan::analyzer
