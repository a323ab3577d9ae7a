#include "formats/json_value.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace titan::format {
namespace {

template <typename T>
std::string written(const T& value) {
    return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void write_text(std::string& out, const std::string& text) {
    const auto plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
    if (std::all_of(text.begin(), text.end(), plain)) {
        out += '"';
        out += text;
        out += '"';
    } else {
        out += written(text);
    }
}

}  // namespace

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
    keys_.emplace_back(key);
    return items_.emplace_back();
}

void Json::push_back(Json item) {
    kind_ = Kind::kArray;
    items_.push_back(std::move(item));
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

void Json::write_items(std::string& out, int indent, int depth) const {
    const bool is_object = kind_ == Kind::kObject;
    const auto new_line = [&](int levels) {
        if (indent >= 0 && !items_.empty()) {
            out += '\n';
            out.append(static_cast<size_t>(indent) * static_cast<size_t>(levels), ' ');
        }
    };
    out += is_object ? '{' : '[';
    for (size_t i = 0; i < items_.size(); ++i) {
        out += i != 0 ? "," : "";
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

}  // namespace titan::format
