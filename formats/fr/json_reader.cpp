#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/hash.h"
#include "formats/fr/read.h"

namespace titan::format::fr {
namespace {

namespace json = simdjson::ondemand;
using simdjson::error_code;

// Keys and names repeat in every entry: one copy of each serves all.
constexpr size_t kLongestShared = 64;
const std::string kNoSense = "invalid JSON";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Texts by their content. It forgets: a text whose place another one took is kept a second time.
class SharedTexts {
  public:
    SharedTexts() : places_(kPlaces) {}
    Value& place_of(std::string_view text) {
        uint64_t head = 0;
        uint64_t tail = 0;
        const size_t some = std::min<size_t>(text.size(), 8);
        std::memcpy(&head, text.data(), some);
        std::memcpy(&tail, text.data() + text.size() - some, some);
        const uint64_t hash = (head ^ tail * kHashMultiplier ^ text.size()) * 0xFF51AFD7ED558CCD;
        return places_[hash >> 54];
    }

  private:
    static constexpr size_t kPlaces = 1024;
    std::vector<Value> places_;
};

// State of one thread, reused from file to file; memory taken for a huge file is given back.
struct Scratch {
    static constexpr size_t kMostKept = size_t{16} << 20;

    json::parser parser;
    std::vector<char> padded;
    std::vector<Value> stack;

    // Wraps the text in a list, so that a text or number alone is read like everything else. The padding is for the
    // parser, which reads beyond the end.
    void take(std::string_view text) {
        if (padded.size() > kMostKept) {
            *this = Scratch();
        }
        padded.resize(std::max(padded.size(), text.size() + 2 + simdjson::SIMDJSON_PADDING));
        padded[0] = '[';
        std::copy(text.begin(), text.end(), padded.begin() + 1);
        padded[text.size() + 1] = ']';
        stack.clear();
    }
};

class Reader {
  public:
    Reader(std::string_view text, Tree& tree, Scratch& with)
        : tree_(tree), parser_(with.parser), padded_(with.padded), stack_(with.stack), size_(text.size() + 2) {
        with.take(text);
    }

    std::optional<Error> read() {
        json::array whole;
        if (parser_.iterate(padded_.data(), size_, padded_.size()).get(document_) != simdjson::SUCCESS) {
            return Error(kNoSense);
        }
        if (document_.get_array().get(whole) != simdjson::SUCCESS) {
            return senseless();
        }
        size_t count = 0;
        Value root;
        for (auto item : whole) {
            json::value inner;
            if (std::move(item).get(inner) != simdjson::SUCCESS || ++count > 1) {
                return senseless();
            }
            if (!read(inner, root)) {
                return std::move(error_);
            }
        }
        if (const char* behind = nullptr; count == 0 || document_.current_location().get(behind) == simdjson::SUCCESS) {
            return senseless();
        }
        tree_.set_root(root);
        return std::nullopt;
    }

  private:
    bool refuse(const char* reason) {
        error_.emplace(std::string("JSON: ") + reason);
        return false;
    }

    Error senseless() {
        const char* place = nullptr;
        const bool known = document_.current_location().get(place) == simdjson::SUCCESS;
        const ptrdiff_t byte = known ? place - padded_.data() - 1 : -1;
        const bool inside = byte >= 0 && byte < static_cast<ptrdiff_t>(size_) - 2;
        return Error(kNoSense + (inside ? " at byte " + std::to_string(byte) : std::string()));
    }
    bool check(error_code failed) {
        if (failed != simdjson::SUCCESS) {
            error_ = senseless();
        }
        return failed == simdjson::SUCCESS;
    }

    // `before`: the text at the same place in the previous dict, null if there is none.
    bool read(json::value& from, Value& into, Value* before = nullptr) {
        json::json_type type{};
        if (!check(from.type().get(type))) {
            return false;
        }
        switch (type) {
            case json::json_type::object: return read_object(from, into);
            case json::json_type::array: return read_array(from, into);
            case json::json_type::string: return read_text(from, into, before);
            case json::json_type::number: return read_number(from, into);
            case json::json_type::boolean: {
                bool flag = false;
                const error_code failed = from.get_bool().get(flag);
                into = bool_value(flag);
                return check(failed);
            }
            case json::json_type::null: {
                bool null = false;
                const error_code failed = from.is_null().get(null);
                into = none_value();
                return check(failed) && (null || check(simdjson::N_ATOM_ERROR));
            }
        }
        return check(simdjson::INCORRECT_TYPE);
    }

    bool read_object(json::value& from, Value& into) {
        json::object object;
        if (!open(Kind::kDict, into) || !check(from.get_object().get(object))) {
            return false;
        }
        const size_t begin = stack_.size();
        std::vector<Pair>& before = before_[depth_];
        for (auto item : object) {
            json::field field;
            const size_t place = (stack_.size() - begin) / 2;
            if (place == before.size()) {
                before.emplace_back();
            }
            Value kept;
            if (!check(std::move(item).get(field)) || !read_key(field, before[place].key, kept)) {
                return false;
            }
            stack_.push_back(kept);
            if (!read(field.value(), kept, &before[place].text)) {
                return false;
            }
            stack_.push_back(kept);
        }
        return close(into, begin);
    }

    // Entries have the same keys in the same order, and often the same words: a text equal to the one at the same place
    // in the previous dict is recognized by its bytes.
    bool read_key(json::field& field, Value& before, Value& into) {
        if (is_same(field.key().raw(), before)) {
            into = before;
            return true;
        }
        std::string_view key;
        return check(field.unescaped_key().get(key)) && keep(key, into) && remember(into, before);
    }

    bool is_same(const char* quoted, const Value& before) const {
        const auto left = static_cast<size_t>(padded_.data() + padded_.size() - quoted);
        return before.kind == Kind::kText && before.size < left && quoted[before.size] == '"' &&
               std::memcmp(quoted, before.text, before.size) == 0;
    }

    // Only what is written as it is meant.
    bool remember(const Value& value, Value& before) const {
        before = tree_.text(value).find_first_of("\\\"") == std::string_view::npos ? value : Value();
        return true;
    }

    bool read_array(json::value& from, Value& into) {
        json::array array;
        if (!open(Kind::kList, into) || !check(from.get_array().get(array))) {
            return false;
        }
        const size_t begin = stack_.size();
        for (auto item : array) {
            json::value inner;
            Value kept;
            if (!check(std::move(item).get(inner)) || !read(inner, kept)) {
                return false;
            }
            stack_.push_back(kept);
        }
        return close(into, begin);
    }

    bool open(Kind kind, Value& into) {
        if (++depth_ > Tree::kMaxDepth + 1) {
            return refuse("it is nested too deeply");
        }
        into = tree_.add_container(kind);
        return true;
    }

    bool close(const Value& container, size_t begin) {
        --depth_;
        const char* reason = tree_.append(container, std::span<const Value>(stack_).subspan(begin));
        stack_.resize(begin);
        return reason == nullptr || refuse(reason);
    }

    bool read_text(json::value& from, Value& into, Value* before) {
        if (before != nullptr && is_same(from.raw_json_token().data() + 1, *before)) {
            into = *before;
            json::raw_json_string same;
            return check(from.get_raw_json_string().get(same));
        }
        std::string_view text;
        return check(from.get_string().get(text)) && keep(text, into) && (before == nullptr || remember(into, *before));
    }

    bool keep(std::string_view text, Value& into) {
        Value* place = text.size() <= kLongestShared ? &shared_.place_of(text) : nullptr;
        if (place != nullptr && place->kind == Kind::kText && tree_.text(*place) == text) {
            into = *place;
            return true;
        }
        if (const char* reason = tree_.keep_text(text, Kind::kText, into); reason != nullptr) {
            return refuse(reason);
        }
        if (place != nullptr) {
            *place = into;
        }
        return true;
    }

    bool read_number(json::value& from, Value& into) {
        int64_t integer = 0;
        if (from.get_int64().get(integer) == simdjson::SUCCESS) {
            into = int_value(integer);
            return true;
        }
        const bool is_integer = from.raw_json_token().find_first_of(".eE") == std::string_view::npos;
        double real = 0;
        const error_code failed = from.get_double().get(real);
        if (failed != simdjson::SUCCESS) {
            return check(failed);
        }
        into = float_value(real);
        into.kind = is_integer ? Kind::kWideInt : Kind::kFloat;
        return true;
    }

    Tree& tree_;
    json::parser& parser_;
    std::vector<char>& padded_;
    std::vector<Value>& stack_;
    const size_t size_;
    json::document document_;
    SharedTexts shared_;
    struct Pair {
        Value key;
        Value text;
    };
    std::array<std::vector<Pair>, Tree::kMaxDepth + 2> before_;  // the newest dict at each depth
    size_t depth_ = 0;
    std::optional<Error> error_;
};

}  // namespace

std::optional<Error> read_json(std::span<const std::byte> bytes, Tree& tree) {
    tree.clear();
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.starts_with(kByteOrderMark)) {
        text.remove_prefix(kByteOrderMark.size());
    }
    thread_local Scratch scratch;
    return Reader(text, tree, scratch).read();
}

}  // namespace titan::format::fr
