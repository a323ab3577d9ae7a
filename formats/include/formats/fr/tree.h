// Plain data as a foreign recorder writes it: none, booleans, numbers, texts, tuples, lists and dicts. Readers of
// encodings (pickle, JSON) build it; it runs nothing and cannot hold anything that could.
//
// Texts point into the bytes that were read, which must outlive the tree, or into the tree itself. Values may be shared
// (a pickle refers to an earlier one), but never form a cycle: a value never changes once it is inside a container. Not
// thread-safe; one tree serves file after file and keeps its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace titan::format::fr {

enum class Kind : uint8_t { kNone, kBool, kInt, kWideInt, kFloat, kText, kBytes, kTuple, kList, kDict };

// 16 bytes, because a dump has millions of them.
struct Value {
    union {
        int64_t integer = 0;  // kBool, kInt
        double real;
        const char* text;
    };
    uint32_t size = 0;  // bytes of a text; of a container its number
    Kind kind = Kind::kNone;

    bool is_container() const { return kind >= Kind::kTuple; }
    bool is_sequence() const { return kind == Kind::kTuple || kind == Kind::kList; }
};
static_assert(sizeof(Value) == 16);

// "a text", "a list": for messages.
const char* name_of(Kind kind);

Value none_value();
Value bool_value(bool value);
Value int_value(int64_t value);
Value float_value(double value);

class Tree {
  public:
    static constexpr uint32_t kMaxDepth = 64;
    static constexpr size_t kMaxValues = size_t{1} << 27;

    const Value& root() const { return root_; }
    // The items of a container; of a dict: key, value, key, value. Empty for other values.
    std::span<const Value> items(const Value& container) const;
    std::string_view text(const Value& value) const;  // empty for what is no text
    // The last value of that key, null where there is none or `dict` is no dict.
    const Value* find(const Value& dict, std::string_view key) const;
    size_t container_count() const { return containers_.size(); }

    // The functions below are for readers. A returned const char* is the reason for a refusal, null on success.
    void clear();
    void set_root(const Value& value) { root_ = value; }
    Value add_container(Kind kind);
    const char* append(const Value& container, std::span<const Value> values);
    const char* keep_text(std::string_view text, Kind kind, Value& into);  // copies
    static Value text_in_place(std::string_view text, Kind kind);          // limit 4 GiB

  private:
    struct Container {
        uint32_t begin;
        uint32_t count;
        uint32_t capacity;
        uint8_t height;  // 0: holds no container
        bool placed;     // part of another container: must not change any more
    };

    bool move_to_end(Container& container, size_t wanted);

    Value root_;
    std::vector<Value> values_;
    std::vector<Container> containers_;
    std::deque<std::string> chunks_;
    std::deque<std::string> spare_chunks_;
};

}  // namespace titan::format::fr
