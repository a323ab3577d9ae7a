// The part of Python's pickle machine that plain data needs: a stack, marks on it, a memo. One pass over the bytes.
#include <bit>
#include <cstring>
#include <string>

#include "formats/fr/read.h"
#include "pickle_text.h"

namespace titan::format::fr {
namespace {

constexpr unsigned kNewestProtocol = 5;
constexpr uint64_t kMemoSlack = 4096;

struct Refused {
    unsigned char byte;
    const char* name;
    bool code;
};
constexpr Refused kRefused[] = {
#define TITAN_IS_CODE_code true
#define TITAN_IS_CODE_other false
#define X(byte, name, cls) {byte, #name, TITAN_IS_CODE_##cls},
#include "pickle_opcodes.def"
#undef X
};

class Machine {
  public:
    Machine(std::string_view bytes, Tree& tree) : bytes_(bytes), tree_(tree) {}

    std::optional<Error> run() {
        while (!stopped_) {
            at_ = next_;
            if (next_ == bytes_.size()) {
                return Error("ends at byte " + std::to_string(at_) + " without the end that a pickle has");
            }
            const auto opcode = static_cast<unsigned char>(bytes_[next_++]);
            if (const char* reason = step(opcode); reason != nullptr) {
                return explain(opcode, reason);
            }
        }
        return std::nullopt;
    }

  private:
    static constexpr const char* kCut = "the file ends inside it";
    static constexpr const char* kEmpty = "there is nothing on the stack for it";
    static constexpr const char* kTooMany = "it holds too many values";
    static constexpr const char* kUnknown = "no such opcode";
    static constexpr const char* kBadText = "its text cannot be read";

    Error explain(unsigned char opcode, const std::string& reason) const {
        char number[8];
        std::snprintf(number, sizeof(number), "0x%02x", opcode);
        std::string name = number;
        for (const Refused& refused : kRefused) {
            if (refused.byte == opcode) {
                name = refused.name;
            }
        }
        return Error("pickle opcode " + name + " at byte " + std::to_string(at_) + ": " + reason);
    }

    // Numbers in the stream are little endian. False: it ends before.
    template <typename T>
    bool take(T& number) {
        static_assert(std::endian::native == std::endian::little);
        if (sizeof(T) > bytes_.size() - next_) {
            return false;
        }
        std::memcpy(&number, bytes_.data() + next_, sizeof(T));
        next_ += sizeof(T);
        return true;
    }

    bool take_bytes(uint64_t size, std::string_view& raw) {
        if (size > bytes_.size() - next_) {
            return false;
        }
        raw = bytes_.substr(next_, size);
        next_ += size;
        return true;
    }

    bool take_line(std::string_view& line) {
        const size_t end = bytes_.find('\n', next_);
        if (end == std::string_view::npos) {
            return false;
        }
        line = bytes_.substr(next_, end - next_);
        next_ = end + 1;
        return true;
    }

    const char* push(const Value& value) {
        if (stack_.size() >= Tree::kMaxValues) {
            return kTooMany;
        }
        stack_.push_back(value);
        return nullptr;
    }

    const char* push_new(Kind kind) {
        return tree_.container_count() >= Tree::kMaxValues ? kTooMany : push(tree_.add_container(kind));
    }

    template <typename Length>
    const char* push_sized(Kind kind) {
        Length size = 0;
        std::string_view raw;
        if (!take(size) || !take_bytes(size, raw)) {
            return kCut;
        }
        return raw.size() > UINT32_MAX ? "it has a text of more than 4 GiB" : push(Tree::text_in_place(raw, kind));
    }

    template <typename T>
    const char* push_number() {
        T number = 0;
        return take(number) ? push(int_value(static_cast<int64_t>(number))) : kCut;
    }

    template <typename Length>
    const char* push_long() {
        Length size = 0;
        std::string_view raw;
        if (!take(size)) {
            return kCut;
        }
        // LONG4's length is signed in the format.
        return size <= INT32_MAX && take_bytes(size, raw) ? push(parse_long(raw)) : kCut;
    }

    const char* push_float() {
        std::string_view raw;
        if (!take_bytes(sizeof(double), raw)) {
            return kCut;
        }
        uint64_t bits = 0;
        for (const char byte : raw) {
            bits = bits << 8 | static_cast<unsigned char>(byte);
        }
        double number = 0;
        std::memcpy(&number, &bits, sizeof(number));
        return push(float_value(number));
    }

    template <typename Parse>
    const char* push_line(const Parse& parse) {
        std::string_view line;
        if (!take_line(line)) {
            return kCut;
        }
        const std::optional<Value> value = parse(line);
        return value ? push(*value) : kBadText;
    }

    template <typename Parse>
    const char* push_decoded(const Parse& parse) {
        std::string_view line;
        if (!take_line(line)) {
            return kCut;
        }
        const std::optional<std::string> text = parse(line);
        Value value;
        if (!text) {
            return kBadText;
        }
        const char* reason = tree_.keep_text(*text, Kind::kText, value);
        return reason != nullptr ? reason : push(value);
    }

    // Values above what the innermost mark protects.
    size_t available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

    // Takes the values above the innermost mark off the stack, as a container or into the one below the mark.
    const char* close(Kind kind, bool into_below) {
        if (marks_.empty()) {
            return "it needs a mark, and there is none";
        }
        const size_t begin = marks_.back();
        marks_.pop_back();
        if (into_below && available() == stack_.size() - begin) {
            return kEmpty;
        }
        const std::span<const Value> values(stack_.data() + begin, stack_.size() - begin);
        if (kind == Kind::kDict && values.size() % 2 != 0) {
            return "it has a key without a value";
        }
        if (tree_.container_count() >= Tree::kMaxValues) {
            return kTooMany;
        }
        const Value target = into_below ? stack_[begin - 1] : tree_.add_container(kind);
        if (target.kind != kind) {
            return "what it would add to is of another type";
        }
        const char* reason = tree_.append(target, values);
        stack_.resize(begin);
        return reason != nullptr || into_below ? reason : push(target);
    }

    // The same for a known number of values.
    const char* close_last(Kind kind, size_t count, bool into_below) {
        if (available() < count + (into_below ? 1 : 0)) {
            return kEmpty;
        }
        marks_.push_back(stack_.size() - count);
        return close(kind, into_below);
    }

    // Each mark that is open becomes a container around the next one.
    const char* mark() {
        if (marks_.size() > Tree::kMaxDepth) {
            return "too many marks are open: nested too deeply";
        }
        marks_.push_back(stack_.size());
        return nullptr;
    }

    const char* pop() {
        if (available() != 0) {
            stack_.pop_back();
        } else if (!marks_.empty()) {
            marks_.pop_back();
        } else {
            return kEmpty;
        }
        return nullptr;
    }

    const char* pop_mark() {
        if (marks_.empty()) {
            return "it needs a mark, and there is none";
        }
        stack_.resize(marks_.back());
        marks_.pop_back();
        return nullptr;
    }

    const char* remember(uint64_t index) {
        if (available() == 0) {
            return kEmpty;
        }
        // Writers number their memo densely.
        if (index > remembered_ + kMemoSlack) {
            return "its number in the memo is far above the count of remembered values";
        }
        if (index >= memo_.size()) {
            memo_.resize(index);
            memo_.push_back({stack_.back(), true});
            ++remembered_;
            return nullptr;
        }
        remembered_ += memo_[index].second ? 0 : 1;
        memo_[index] = {stack_.back(), true};
        return nullptr;
    }

    const char* recall(uint64_t index) {
        return index < memo_.size() && memo_[index].second ? push(memo_[index].first)
                                                           : "it refers to something that was never remembered";
    }

    template <typename Index>
    const char* remember_at() {
        Index index = 0;
        return take(index) ? remember(index) : kCut;
    }
    template <typename Index>
    const char* recall_at() {
        Index index = 0;
        return take(index) ? recall(index) : kCut;
    }
    const char* memo_line(bool store) {
        std::string_view line;
        if (!take_line(line)) {
            return kCut;
        }
        const std::optional<Value> index = parse_integer(line);
        if (!index || index->kind != Kind::kInt || index->integer < 0) {
            return kBadText;
        }
        const auto number = static_cast<uint64_t>(index->integer);
        return store ? remember(number) : recall(number);
    }

    const char* protocol() {
        uint8_t version = 0;
        if (!take(version)) {
            return kCut;
        }
        return version > kNewestProtocol ? "a newer protocol than the 5 that is known" : nullptr;
    }

    const char* frame() {
        uint64_t size = 0;
        return take(size) && size <= bytes_.size() - next_ ? nullptr : kCut;
    }

    const char* stop() {
        if (available() == 0) {
            return kEmpty;
        }
        tree_.set_root(stack_.back());
        stopped_ = true;
        return nullptr;
    }

    static const char* refuse(unsigned char opcode) {
        for (const Refused& refused : kRefused) {
            if (refused.byte == opcode) {
                return refused.code ? "this file asks to run code, which no Flight Recorder dump does; nothing was run"
                                    : "no part of the plain data that a Flight Recorder dump is";
            }
        }
        return kUnknown;
    }

    // Null: done.
    const char* step(unsigned char opcode) {
        switch (opcode) {
            case 'h': return recall_at<uint8_t>();
            case 'j': return recall_at<uint32_t>();
            case 'q': return remember_at<uint8_t>();
            case 'r': return remember_at<uint32_t>();
            case 0x94: return remember(remembered_);
            case 'K': return push_number<uint8_t>();
            case 'M': return push_number<uint16_t>();
            case 'J': return push_number<int32_t>();
            case 0x8a: return push_long<uint8_t>();
            case 0x8b: return push_long<uint32_t>();
            case 'G': return push_float();
            case 'N': return push(none_value());
            case 0x88: return push(bool_value(true));
            case 0x89: return push(bool_value(false));
            case 'X': return push_sized<uint32_t>(Kind::kText);
            case 0x8c: return push_sized<uint8_t>(Kind::kText);
            case 0x8d: return push_sized<uint64_t>(Kind::kText);
            case 'T': return push_sized<uint32_t>(Kind::kText);
            case 'U': return push_sized<uint8_t>(Kind::kText);
            case 'B': return push_sized<uint32_t>(Kind::kBytes);
            case 'C': return push_sized<uint8_t>(Kind::kBytes);
            case 0x8e:
            case 0x96: return push_sized<uint64_t>(Kind::kBytes);
            case '(': return mark();
            case ']': return push_new(Kind::kList);
            case '}': return push_new(Kind::kDict);
            case ')': return push_new(Kind::kTuple);
            case 'e': return close(Kind::kList, true);
            case 'u': return close(Kind::kDict, true);
            case 't': return close(Kind::kTuple, false);
            case 'l': return close(Kind::kList, false);
            case 'd': return close(Kind::kDict, false);
            case 'a': return close_last(Kind::kList, 1, true);
            case 's': return close_last(Kind::kDict, 2, true);
            case 0x85: return close_last(Kind::kTuple, 1, false);
            case 0x86: return close_last(Kind::kTuple, 2, false);
            case 0x87: return close_last(Kind::kTuple, 3, false);
            case '0': return pop();
            case '1': return pop_mark();
            case '2': return available() == 0 ? kEmpty : push(Value(stack_.back()));
            case 'I': return push_line(parse_integer_or_bool);
            case 'L': return push_line(parse_integer);
            case 'F': return push_line(parse_float);
            case 'S': return push_decoded(parse_quoted);
            case 'V': return push_decoded(parse_raw_unicode);
            case 'g': return memo_line(false);
            case 'p': return memo_line(true);
            case 0x80: return protocol();
            case 0x95: return frame();
            case '.': return stop();
            default: return refuse(opcode);
        }
    }

    std::string_view bytes_;
    Tree& tree_;
    size_t at_ = 0;    // offset of the opcode
    size_t next_ = 0;  // byte
    bool stopped_ = false;
    std::vector<Value> stack_;
    std::vector<size_t> marks_;
    std::vector<std::pair<Value, bool>> memo_;
    uint64_t remembered_ = 0;
};

}  // namespace

std::optional<Error> read_pickle(std::span<const std::byte> bytes, Tree& tree) {
    tree.clear();
    return Machine({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, tree).run();
}

Encoding guess_encoding(std::span<const std::byte> first) {
    constexpr auto kProtocol = std::byte{0x80};
    if (first.size() >= 2 && first[0] == kProtocol && std::to_integer<unsigned>(first[1]) <= kNewestProtocol) {
        return Encoding::kPickle;
    }
    for (const std::byte byte : first) {
        const auto character = static_cast<char>(byte);
        if (character == '{') {
            return Encoding::kJson;
        }
        if (character != ' ' && character != '\n' && character != '\r' && character != '\t') {
            break;
        }
    }
    return Encoding::kUnknown;
}

std::optional<Error> read(std::span<const std::byte> bytes, Tree& tree) {
    switch (guess_encoding(bytes)) {
        case Encoding::kPickle: return read_pickle(bytes, tree);
        case Encoding::kJson: return read_json(bytes, tree);
        case Encoding::kUnknown: break;
    }
    return Error("neither a pickle nor JSON");
}

}  // namespace titan::format::fr
