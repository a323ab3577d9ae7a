#include "grouped_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/hash.h"
#include "formats/container/packed_number.h"

namespace titan::analyzer {
namespace {

// How a cell is written: in the lowest bits of its first number, above which a difference or the place of a text lies.
enum Coded : uint64_t { kNull, kReal, kWholeReal, kInteger, kText, kLongInteger };
constexpr unsigned kCodedBits = 3;

uint64_t hash_of(const std::vector<Cell>& key) {
    uint64_t hash = kHashOfNothing;
    for (const Cell& cell : key) {
        const auto [kind, value] = identity_of(cell);
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
    size_t place = hash % table_.size();
    while (table_[place] != 0 && !is_it(table_[place] - 1)) {
        place = (place + 1) % table_.size();
    }
    return table_[place];
}

void GroupedRows::grow_table() {
    table_.assign(2 * table_.size(), 0);
    std::vector<Cell> key(order_.size());
    for (uint32_t group = 0; group < groups_.size(); ++group) {
        std::transform(order_.begin(), order_.end(), key.begin(),
                       [&](const OrderColumn& of) { return heads_.at(group, of.column); });
        size_t place = hash_of(key) % table_.size();
        while (table_[place] != 0) {
            place = (place + 1) % table_.size();
        }
        table_[place] = group + 1;
    }
}

void GroupedRows::add(const std::function<Json(size_t)>& cell, const std::vector<Condition>& conditions) {
    if (!heads_.meets(cell, conditions)) {
        return;
    }
    std::vector<Cell> key;
    for (const OrderColumn& of : order_) {
        row_[of.column] = heads_.cell_of(cell(of.column), columns_[of.column]);
        key.push_back(row_[of.column]);
    }
    uint32_t& place = place_of(hash_of(key));
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
