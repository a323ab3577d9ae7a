#include "formats/fr/tree.h"

#include <algorithm>
#include <climits>

namespace titan::format::fr {
namespace {
constexpr size_t kChunkBytes = 64 << 10;
constexpr const char* kTooMany = "it holds too many values";
}  // namespace

const char* name_of(Kind kind) {
    switch (kind) {
        case Kind::kNone: return "none";
        case Kind::kBool: return "a boolean";
        case Kind::kInt: return "a number";
        case Kind::kWideInt: return "a number of more than 64 bits";
        case Kind::kFloat: return "a fraction";
        case Kind::kText: return "a text";
        case Kind::kBytes: return "bytes";
        case Kind::kTuple: return "a tuple";
        case Kind::kList: return "a list";
        case Kind::kDict: return "a dict";
    }
    return "nothing known";
}

Value none_value() { return {}; }

Value bool_value(bool value) {
    Value made;
    made.integer = value ? 1 : 0;
    made.kind = Kind::kBool;
    return made;
}

Value int_value(int64_t value) {
    Value made;
    made.integer = value;
    made.kind = Kind::kInt;
    return made;
}

Value float_value(double value) {
    Value made;
    made.real = value;
    made.kind = Kind::kFloat;
    return made;
}

std::span<const Value> Tree::items(const Value& container) const {
    if (!container.is_container() || container.size >= containers_.size()) {
        return {};
    }
    const Container& found = containers_[container.size];
    return {values_.data() + found.begin, found.count};
}

std::string_view Tree::text(const Value& value) const {
    return value.kind == Kind::kText || value.kind == Kind::kBytes ? std::string_view(value.text, value.size)
                                                                   : std::string_view();
}

const Value* Tree::find(const Value& dict, std::string_view key) const {
    if (dict.kind != Kind::kDict) {
        return nullptr;
    }
    const std::span<const Value> pairs = items(dict);
    for (size_t i = pairs.size() / 2; i-- > 0;) {
        if (pairs[2 * i].kind == Kind::kText && text(pairs[2 * i]) == key) {
            return &pairs[2 * i + 1];
        }
    }
    return nullptr;
}

void Tree::clear() {
    root_ = {};
    values_.clear();
    containers_.clear();
    for (std::string& chunk : chunks_) {
        if (chunk.capacity() == kChunkBytes) {
            chunk.clear();
            spare_chunks_.push_back(std::move(chunk));
        }
    }
    chunks_.clear();
}

Value Tree::add_container(Kind kind) {
    Value made;
    made.size = static_cast<uint32_t>(containers_.size());
    made.kind = kind;
    containers_.push_back({static_cast<uint32_t>(values_.size()), 0, 0, 0, false});
    return made;
}

// Moves the container to the end of the arena, with room to double.
bool Tree::move_to_end(Container& container, size_t wanted) {
    const size_t capacity = std::max(wanted, size_t{container.capacity} * 2);
    const size_t begin = values_.size();
    if (begin + capacity > kMaxValues) {
        return false;
    }
    values_.resize(begin + capacity);
    std::copy_n(values_.data() + container.begin, container.count, values_.data() + begin);
    container.begin = static_cast<uint32_t>(begin);
    container.capacity = static_cast<uint32_t>(capacity);
    return true;
}

const char* Tree::append(const Value& container, std::span<const Value> values) {
    Container& target = containers_[container.size];
    if (values.empty()) {
        return nullptr;
    }
    if (target.placed) {
        return "it changes what is already part of something else, as cyclic data does";
    }
    if (containers_.size() > kMaxValues || size_t{target.count} + values.size() > kMaxValues) {
        return kTooMany;
    }
    for (const Value& value : values) {
        if (!value.is_container()) {
            continue;
        }
        if (value.size == container.size) {
            return "it puts a container into itself: cyclic data";
        }
        Container& child = containers_[value.size];
        child.placed = true;
        target.height = std::max<uint8_t>(target.height, static_cast<uint8_t>(child.height + 1));
        if (target.height > kMaxDepth) {
            return "it is nested too deeply";
        }
    }
    const size_t wanted = target.count + values.size();
    if (target.capacity == 0) {
        target.begin = static_cast<uint32_t>(values_.size());
    }
    // Containers are filled one after the other, so the newest nearly always ends the arena and grows in place.
    const bool full = target.count == target.capacity;
    if (full && size_t{target.begin} + target.count == values_.size()) {
        if (target.begin + wanted > kMaxValues) {
            return kTooMany;
        }
        values_.insert(values_.end(), values.begin(), values.end());
        target.count = target.capacity = static_cast<uint32_t>(wanted);
        return nullptr;
    }
    if (wanted > target.capacity && !move_to_end(target, wanted)) {
        return kTooMany;
    }
    std::copy(values.begin(), values.end(), values_.data() + target.begin + target.count);
    target.count = static_cast<uint32_t>(wanted);
    return nullptr;
}

const char* Tree::keep_text(std::string_view text, Kind kind, Value& into) {
    if (text.size() > UINT32_MAX) {
        return "it has a text of more than 4 GiB";
    }
    if (chunks_.empty() || chunks_.back().capacity() - chunks_.back().size() < text.size()) {
        if (text.size() <= kChunkBytes && !spare_chunks_.empty()) {
            chunks_.push_back(std::move(spare_chunks_.back()));
            spare_chunks_.pop_back();
        } else {
            chunks_.emplace_back().reserve(std::max(kChunkBytes, text.size()));
        }
    }
    std::string& chunk = chunks_.back();
    const size_t begin = chunk.size();
    chunk.append(text);
    into = text_in_place({chunk.data() + begin, text.size()}, kind);
    return nullptr;
}

Value Tree::text_in_place(std::string_view text, Kind kind) {
    Value made;
    made.text = text.data();
    made.size = static_cast<uint32_t>(text.size());
    made.kind = kind;
    return made;
}

}  // namespace titan::format::fr
