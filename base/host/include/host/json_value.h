// JSON that we write, and small JSON of others: a value whose members keep the order in which they came. One file
// includes the library that parses, and formats numbers and text (json_value.cpp): its header costs each file that
// includes it some seconds of compiling.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

class Json;

template <typename T>
concept JsonText = std::convertible_to<const T&, std::string_view>;
template <typename T>
concept JsonList = std::ranges::input_range<const T> && !JsonText<T> && !std::same_as<T, Json> &&
                   std::constructible_from<Json, std::ranges::range_value_t<const T>>;

class Json {
  public:
    Json(std::nullptr_t = nullptr) {}
    Json(bool value) : kind_(Kind::kBoolean), bits_(value ? 1 : 0) {}
    template <std::integral T>
    Json(T value)
        : kind_(std::signed_integral<T> ? Kind::kSigned : Kind::kUnsigned), bits_(static_cast<uint64_t>(value)) {}
    Json(double value) : kind_(Kind::kReal), real_(value) {}
    template <JsonText T>
    Json(const T& value) : kind_(Kind::kText), text_(std::string_view(value)) {}
    template <JsonList T>
    Json(const T& list) : kind_(Kind::kArray) {
        for (const auto& item : list) {
            push_back(Json(item));
        }
    }
    // An object where each is a list of a text and something, else a list.
    Json(std::initializer_list<Json> items);

    // Parses any bytes. Values nested deeper than `depth` become null. Returns nothing if the text is not JSON.
    static std::optional<Json> parse(std::string_view text, size_t depth = 16);

    static Json array() { return Json(Kind::kArray); }
    static Json object() { return Json(Kind::kObject); }

    // The member of that name; added as null if missing. A null value becomes an object.
    Json& operator[](std::string_view key);
    void push_back(Json item);
    bool empty() const { return items_.empty(); }  // object or list

    bool is_object() const { return kind_ == Kind::kObject; }
    // The newest member of that name; null if this is no object or has none.
    const Json& at(std::string_view key) const;
    const std::vector<Json>& items() const { return items_; }       // object or list
    const std::vector<std::string>& keys() const { return keys_; }  // object: one key for each item
    // Nothing if the value has another type, or does not fit.
    std::optional<std::string_view> text() const;
    std::optional<int64_t> integer() const;
    std::optional<uint64_t> natural() const;
    std::optional<double> number() const;
    std::optional<bool> boolean() const;

    // add_member: appends to an object without looking for a member of that name. add: appends to a list.
    Json& add_member(std::string key, Json value);
    Json& add_item(Json value);

    // Replaces unprintable characters of all texts and keys by '?', but for newlines: for a page, where an escape
    // sequence of JSON is the character again.
    void make_printable();

    // Writes one line, or one line for each member and item, indented by `indent` per level. Invalid UTF-8 becomes
    // U+FFFD, unprintable characters (base/printable.h) become escape sequences.
    std::string dump(int indent = -1) const;

  private:
    enum class Kind : uint8_t { kNull, kBoolean, kSigned, kUnsigned, kReal, kText, kArray, kObject };
    explicit Json(Kind kind) : kind_(kind) {}

    void write(std::string& out, int indent, int depth) const;
    void write_items(std::string& out, int indent, int depth) const;

    Kind kind_ = Kind::kNull;
    union {
        uint64_t bits_ = 0;
        double real_;
    };
    std::string text_;
    std::vector<std::string> keys_;  // object: one for each item
    std::vector<Json> items_;
};

// JSON has no numbers that are not finite: those are words ("nan", "inf", "-inf").
Json number_or_word(double value);

}  // namespace titan
