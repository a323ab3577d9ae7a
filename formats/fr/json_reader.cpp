#include <nlohmann/json.hpp>
#include <unordered_map>

#include "formats/fr/read.h"

namespace titan::format::fr {
namespace {

// Keys and names repeat in every entry: one copy of each serves all.
constexpr size_t kLongestShared = 64;

class Handler {
  public:
    using Text = nlohmann::json::string_t;
    using Bytes = nlohmann::json::binary_t;

    explicit Handler(Tree& tree) : tree_(tree) {}

    bool null() { return add(none_value()); }
    bool boolean(bool value) { return add(bool_value(value)); }
    bool number_integer(nlohmann::json::number_integer_t value) { return add(int_value(value)); }
    bool number_unsigned(nlohmann::json::number_unsigned_t value) {
        if (value <= INT64_MAX) {
            return add(int_value(static_cast<int64_t>(value)));
        }
        Value wide;
        wide.kind = Kind::kWideInt;
        return add(wide);
    }
    bool number_float(nlohmann::json::number_float_t value, const Text&) { return add(float_value(value)); }
    bool string(Text& text) {
        Value value;
        return keep(text, value) && add(value);
    }
    bool binary(Bytes&) { return refuse("bytes"); }
    bool key(Text& text) {
        Value value;
        if (!keep(text, value)) {
            return false;
        }
        stack_.push_back(value);
        return true;
    }
    bool start_object(size_t) { return open(Kind::kDict); }
    bool start_array(size_t) { return open(Kind::kList); }
    bool end_object() { return close(); }
    bool end_array() { return close(); }
    bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
        error_.emplace("JSON: no sense can be made of it at byte " + std::to_string(position));
        return false;
    }

    std::optional<Error> take_error() { return std::move(error_); }

  private:
    struct Open {
        Value container;
        size_t begin;  // in stack_
    };

    bool refuse(const char* reason) {
        error_.emplace(std::string("JSON: ") + reason);
        return false;
    }

    bool open(Kind kind) {
        if (open_.size() > Tree::kMaxDepth) {
            return refuse("it is nested too deeply");
        }
        open_.push_back({tree_.add_container(kind), stack_.size()});
        return true;
    }

    bool close() {
        const Open done = open_.back();
        open_.pop_back();
        const char* reason = tree_.append(done.container, std::span<const Value>(stack_).subspan(done.begin));
        stack_.resize(done.begin);
        return reason != nullptr ? refuse(reason) : add(done.container);
    }

    bool add(const Value& value) {
        if (open_.empty()) {
            tree_.set_root(value);
        } else {
            stack_.push_back(value);
        }
        return true;
    }

    bool keep(const Text& text, Value& value) {
        const bool shared = text.size() <= kLongestShared;
        if (const auto known = shared ? shared_.find(text) : shared_.end(); known != shared_.end()) {
            value = known->second;
            return true;
        }
        if (const char* reason = tree_.keep_text(text, Kind::kText, value); reason != nullptr) {
            return refuse(reason);
        }
        if (shared) {
            shared_.emplace(std::string_view(value.text, value.size), value);
        }
        return true;
    }

    Tree& tree_;
    std::vector<Value> stack_;
    std::vector<Open> open_;
    std::unordered_map<std::string_view, Value> shared_;
    std::optional<Error> error_;
};

}  // namespace

std::optional<Error> read_json(std::span<const std::byte> bytes, Tree& tree) {
    tree.clear();
    Handler handler(tree);
    const auto* begin = reinterpret_cast<const char*>(bytes.data());
    const bool whole = nlohmann::json::sax_parse(begin, begin + bytes.size(), &handler);
    std::optional<Error> error = handler.take_error();
    return whole || error ? std::move(error) : Error("JSON: it cannot be read");
}

}  // namespace titan::format::fr
