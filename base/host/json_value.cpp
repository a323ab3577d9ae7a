#include "host/json_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/printable.h"
#include "base/utf8.h"

namespace titan {
namespace {

template <typename T>
std::string written(const T& value) {
    return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Characters that a terminal acts on stay the same text to a program, and are not sent to a person's terminal.
std::string with_escapes(const std::string& json) {
    std::string out;
    out.reserve(json.size());
    for (size_t i = 0; i < json.size();) {
        const size_t length = std::max<size_t>(utf8_length(json.data() + i, json.size() - i), 1);
        const uint32_t code = utf8_code(json.data() + i, length);
        if (!is_unprintable(code)) {
            out.append(json, i, length);
        } else if (code < 0x10000) {
            out += fmt::format("\\u{:04x}", code);
        } else {
            out += fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF));
        }
        i += length;
    }
    return out;
}

void write_text(std::string& out, const std::string& text) {
    const auto plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
    if (std::all_of(text.begin(), text.end(), plain)) {
        out += '"';
        out += text;
        out += '"';
    } else {
        out += with_escapes(written(text));
    }
}

// Builds a value from the events of a parser, which does not recurse.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
  public:
    Builder(Json& top, size_t depth) : top_(top), most_(depth) {}

    bool null() override { return add(Json()); }
    bool boolean(bool value) override { return add(Json(value)); }
    bool number_integer(number_integer_t value) override { return add(Json(value)); }
    bool number_unsigned(number_unsigned_t value) override { return add(Json(value)); }
    bool number_float(number_float_t value, const string_t&) override { return add(Json(value)); }
    bool string(string_t& value) override { return add(Json(value)); }
    bool binary(binary_t&) override { return false; }
    bool start_object(size_t) override { return begin(Json::object()); }
    bool end_object() override { return end(); }
    bool start_array(size_t) override { return begin(Json::array()); }
    bool end_array() override { return end(); }
    bool key(string_t& value) override {
        key_ = std::move(value);
        return true;
    }
    bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

  private:
    Json* put(Json value) {
        if (open_.empty()) {
            top_ = std::move(value);
            return &top_;
        }
        Json& parent = *open_.back();
        return parent.is_object() ? &parent.add_member(std::move(key_), std::move(value))
                                  : &parent.add_item(std::move(value));
    }
    bool add(Json value) {
        if (too_deep_ == 0) {
            put(std::move(value));
        }
        return true;
    }
    bool begin(Json value) {
        if (too_deep_ != 0 || open_.size() >= most_) {
            if (too_deep_++ == 0) {
                put(Json());
            }
            return true;
        }
        open_.push_back(put(std::move(value)));
        return true;
    }
    bool end() {
        if (too_deep_ != 0) {
            --too_deep_;
        } else {
            open_.pop_back();
        }
        return true;
    }

    Json& top_;
    std::vector<Json*> open_;  // each lies in the one before, at its end: it does not move while it is open
    std::string key_;
    size_t most_;
    size_t too_deep_ = 0;
};

}  // namespace

std::optional<Json> Json::parse(std::string_view text, size_t depth) {
    Json value;
    Builder builder(value, depth);
    return nlohmann::json::sax_parse(text, &builder) ? std::optional(std::move(value)) : std::nullopt;
}

const Json& Json::at(std::string_view key) const {
    static const Json kNone;
    const auto found = std::find(keys_.rbegin(), keys_.rend(), key);
    return found == keys_.rend() ? kNone : items_[static_cast<size_t>(keys_.rend() - found) - 1];
}

std::optional<std::string_view> Json::text() const {
    return kind_ == Kind::kText ? std::optional<std::string_view>(text_) : std::nullopt;
}

std::optional<int64_t> Json::integer() const {
    const bool fits = kind_ == Kind::kSigned || (kind_ == Kind::kUnsigned && bits_ <= INT64_MAX);
    return fits ? std::optional(static_cast<int64_t>(bits_)) : std::nullopt;
}

std::optional<uint64_t> Json::natural() const {
    const bool fits = kind_ == Kind::kUnsigned || (kind_ == Kind::kSigned && bits_ <= INT64_MAX);
    return fits ? std::optional(bits_) : std::nullopt;
}

std::optional<double> Json::number() const {
    switch (kind_) {
        case Kind::kSigned: return static_cast<double>(static_cast<int64_t>(bits_));
        case Kind::kUnsigned: return static_cast<double>(bits_);
        case Kind::kReal: return real_;
        default: return std::nullopt;
    }
}

std::optional<bool> Json::boolean() const { return kind_ == Kind::kBoolean ? std::optional(bits_ != 0) : std::nullopt; }

Json& Json::add_member(std::string key, Json value) {
    keys_.push_back(std::move(key));
    return items_.emplace_back(std::move(value));
}

Json& Json::add_item(Json value) { return items_.emplace_back(std::move(value)); }

Json::Json(std::initializer_list<Json> items) : kind_(Kind::kArray) {
    const auto is_member = [](const Json& item) {
        return item.kind_ == Kind::kArray && item.items_.size() == 2 && item.items_[0].kind_ == Kind::kText;
    };
    if (!std::all_of(items.begin(), items.end(), is_member)) {
        items_ = items;
        return;
    }
    kind_ = Kind::kObject;
    for (const Json& item : items) {
        keys_.push_back(item.items_[0].text_);
        items_.push_back(item.items_[1]);
    }
}

Json& Json::operator[](std::string_view key) {
    kind_ = Kind::kObject;
    const auto found = std::find(keys_.begin(), keys_.end(), key);
    if (found != keys_.end()) {
        return items_[static_cast<size_t>(found - keys_.begin())];
    }
    return add_member(std::string(key), Json());
}

void Json::push_back(Json item) {
    kind_ = Kind::kArray;
    items_.push_back(std::move(item));
}

void Json::make_printable() {
    const auto clean = [](std::string& text) {
        text.resize(titan::make_printable(text.data(), text.size(), Keep::kOwnLines));
    };
    clean(text_);
    std::for_each(keys_.begin(), keys_.end(), clean);
    std::for_each(items_.begin(), items_.end(), [](Json& item) { item.make_printable(); });
}

std::string Json::dump(int indent) const {
    std::string out;
    write(out, indent, 0);
    return out;
}

void Json::write(std::string& out, int indent, int depth) const {
    switch (kind_) {
        case Kind::kNull: out += "null"; break;
        case Kind::kBoolean: out += bits_ != 0 ? "true" : "false"; break;
        case Kind::kSigned: out += std::to_string(static_cast<int64_t>(bits_)); break;
        case Kind::kUnsigned: out += std::to_string(bits_); break;
        case Kind::kReal: out += written(real_); break;
        case Kind::kText: write_text(out, text_); break;
        case Kind::kArray:
        case Kind::kObject: write_items(out, indent, depth); break;
    }
}

// Lists of whole numbers are one line: a thousand lines of ranks hide the rest from a person.
void Json::write_items(std::string& out, int indent, int depth) const {
    const bool is_object = kind_ == Kind::kObject;
    const bool one_line = !is_object && std::all_of(items_.begin(), items_.end(), [](const Json& item) {
        return item.kind_ == Kind::kSigned || item.kind_ == Kind::kUnsigned;
    });
    const auto new_line = [&](int levels) {
        if (indent >= 0 && !one_line && !items_.empty()) {
            out += '\n';
            out.append(static_cast<size_t>(indent) * static_cast<size_t>(levels), ' ');
        }
    };
    out += is_object ? '{' : '[';
    for (size_t i = 0; i < items_.size(); ++i) {
        out += i == 0 ? "" : one_line && indent >= 0 ? ", " : ",";
        new_line(depth + 1);
        if (is_object) {
            write_text(out, keys_[i]);
            out += indent >= 0 ? ": " : ":";
        }
        items_[i].write(out, indent, depth + 1);
    }
    new_line(depth);
    out += is_object ? '}' : ']';
}

Json number_or_word(double value) { return std::isfinite(value) ? Json(value) : Json(std::to_string(value)); }

}  // namespace titan
