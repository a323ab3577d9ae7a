#include "formats/fr/fr_dump.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "convert.h"

namespace titan::format::fr {
namespace {

constexpr size_t kMaxRanks = 1 << 20;
constexpr size_t kMaxFrames = 4096;
constexpr uint32_t kNotSeen = UINT32_MAX;
constexpr size_t kEntryCost = 16;  // visits per entry: an entry takes more memory than its source

enum class Key : uint8_t {
#define X(key, conversion) key,
#include "keys.def"
#undef X
    kOther
};

class EntryReader : public Converter {
  public:
    EntryReader(const Tree& tree, size_t file_bytes, Dump& dump)
        : Converter(tree, file_bytes, dump), frame_of_container_(tree.container_count(), kNotSeen) {}

    // False: failure() with `place` in front.
    bool read(const Value& value, Entry& entry, std::string& place) {
        if (value.kind != Kind::kDict) {
            return wrong(value, "a dict");
        }
        input_dtypes_ = output_dtypes_ = nullptr;
        bool has_p2p = false;
        const std::span<const Value> pairs = tree_.items(value);
        if (!visit(kEntryCost + pairs.size())) {
            return false;
        }
        for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
            const Key key = key_of(pairs[i]);
            has_p2p |= key == Key::is_p2p;
            if (!take(key, pairs[i + 1], entry)) {
                place = "." + std::string(tree_.text(pairs[i]));
                return false;
            }
        }
        for (const bool input : {true, false}) {
            if (!dtypes(input ? input_dtypes_ : output_dtypes_, input ? entry.inputs : entry.outputs)) {
                place = input ? ".input_dtypes" : ".output_dtypes";
                return false;
            }
        }
        if (entry.name == 0) {
            return fail("it has no profiling_name");
        }
        if (!has_p2p) {
            const std::string& name = dump_.text(entry.name);
            entry.is_p2p = name.find(":send ") != std::string::npos || name.find(":recv ") != std::string::npos;
        }
        return true;
    }

  private:
    // A pickle holds each key once, so that its address tells which it is.
    Key key_of(const Value& value) {
        if (value.kind != Kind::kText) {
            return Key::kOther;
        }
        KnownKey& known = known_keys_[(reinterpret_cast<uintptr_t>(value.text) / 4) % known_keys_.size()];
        if (known.text != value.text || known.size != value.size) {
            known = {value.text, value.size, key_named(tree_.text(value))};
        }
        return known.key;
    }

    static Key key_named(std::string_view name) {
#define X(key, conversion) \
    if (name == #key) {    \
        return Key::key;   \
    }
#include "keys.def"
#undef X
        return split_key(name);
    }

    // PyTorch 2.11 has element counts for each rank of an all_to_all, one list a side. By what their names must say,
    // because writers abbreviate them: input_split_sizes, in_splits.
    static Key split_key(std::string_view name) {
        const bool splits = name.find("split") != std::string_view::npos;
        return splits && name.starts_with("in")    ? Key::input_split_sizes
               : splits && name.starts_with("out") ? Key::output_split_sizes
                                                   : Key::kOther;
    }

    bool take(Key key, const Value& value, Entry& entry) {
        switch (key) {
#define X(key, conversion) \
    case Key::key:         \
        return conversion;
#include "keys.def"
#undef X
            case Key::kOther: break;
        }
        return true;
    }

    static bool keep(const Value& value, const Value*& into) {
        into = &value;
        return true;
    }

    bool process_group(const Value& value, Entry& entry) {
        if (value.kind == Kind::kText) {
            return text(value, entry.group);
        }
        const std::span<const Value> parts = tree_.items(value);
        if (!value.is_sequence() || parts.empty()) {
            return wrong(value, "a pair of name and description");
        }
        return text(parts[0], entry.group) && (parts.size() < 2 || text(parts[1], entry.group_desc));
    }

    bool state(const Value& value, State& into) {
        const std::string_view word = tree_.text(value);
        into = word == "completed"   ? State::kCompleted
               : word == "started"   ? State::kStarted
               : word == "scheduled" ? State::kScheduled
                                     : State::kUnknown;
        return value.kind == Kind::kText || wrong(value, "a text");
    }

    bool sizes(const Value& value, Range& into) {
        const std::span<const Value> tensors = tree_.items(value);
        if (!value.is_sequence()) {
            return value.kind == Kind::kNone || wrong(value, "a list");
        }
        if (!visit(tensors.size())) {
            return false;
        }
        into = {static_cast<uint32_t>(dump_.tensors.size()), static_cast<uint32_t>(tensors.size())};
        for (const Value& tensor : tensors) {
            if (!tensor.is_sequence()) {
                return wrong(tensor, "a list");
            }
            const std::span<const Value> dims = tree_.items(tensor);
            if (!visit(dims.size())) {
                return false;
            }
            Tensor made;
            made.dims_begin = static_cast<uint32_t>(dump_.dims.size());
            made.dims_count = static_cast<uint32_t>(dims.size());
            int64_t elements = 1;
            for (const Value& dim : dims) {
                if (dim.kind != Kind::kInt || dim.integer < 0) {
                    return dim.kind == Kind::kInt ? fail("a negative size") : wrong(dim, "a number of 64 bits");
                }
                dump_.dims.push_back(dim.integer);
                if (__builtin_mul_overflow(elements, dim.integer, &elements)) {
                    elements = INT64_MAX;
                }
            }
            made.elements = static_cast<uint64_t>(elements);
            dump_.tensors.push_back(made);
        }
        return true;
    }

    // Left out where it is anything but a list of counts.
    bool splits(const Value& value, Range& into) {
        const std::span<const Value> counts = tree_.items(value);
        if (!value.is_sequence() || !std::all_of(counts.begin(), counts.end(), [](const Value& count) {
                return count.kind == Kind::kInt && count.integer >= 0;
            })) {
            return true;
        }
        if (!visit(counts.size())) {
            return false;
        }
        into = {static_cast<uint32_t>(dump_.splits.size()), static_cast<uint32_t>(counts.size())};
        for (const Value& count : counts) {
            dump_.splits.push_back(static_cast<uint64_t>(count.integer));
        }
        return true;
    }

    // One for each tensor; a single word stands for all.
    bool dtypes(const Value* value, const Range& tensors) {
        if (value == nullptr || value->kind == Kind::kNone) {
            return true;
        }
        if (!value->is_sequence()) {
            uint32_t word = 0;
            if (!text(*value, word)) {
                return false;
            }
            for (uint32_t i = 0; i < tensors.count; ++i) {
                dump_.tensors[tensors.begin + i].dtype = word;
            }
            return true;
        }
        const std::span<const Value> words = tree_.items(*value);
        if (!visit(words.size())) {
            return false;
        }
        for (size_t i = 0; i < words.size(); ++i) {
            uint32_t word = 0;
            if (!text(words[i], word)) {
                return false;
            }
            if (i < tensors.count) {
                dump_.tensors[tensors.begin + i].dtype = word;
            }
        }
        return true;
    }

    bool frames(const Value& value, Range& into) {
        const std::span<const Value> items = tree_.items(value);
        if (!value.is_sequence()) {
            return value.kind == Kind::kNone || wrong(value, "a list");
        }
        const size_t count = std::min(items.size(), kMaxFrames);
        if (!visit(count)) {
            return false;
        }
        into = {static_cast<uint32_t>(dump_.stacks.size()), static_cast<uint32_t>(count)};
        for (size_t i = 0; i < count; ++i) {
            uint32_t id = 0;
            if (!frame(items[i], id)) {
                return false;
            }
            dump_.stacks.push_back(id);
        }
        return true;
    }

    // Entries share frames, by reference where the encoding has that: each is converted once and kept once.
    bool frame(const Value& value, uint32_t& id) {
        if (value.kind != Kind::kDict) {
            return wrong(value, "a dict");
        }
        uint32_t& known = frame_of_container_[value.size];
        if (known == kNotSeen) {
            Frame made;
            const Value* name = tree_.find(value, "name");
            const Value* file = tree_.find(value, "filename");
            const Value* line = tree_.find(value, "line");
            if (!visit(tree_.items(value).size()) || (name != nullptr && !text(*name, made.name)) ||
                (file != nullptr && !text(*file, made.file)) || (line != nullptr && !number(*line, made.line))) {
                return false;
            }
            const auto [found, inserted] = frame_ids_.try_emplace(std::tuple(made.name, made.file, made.line),
                                                                  static_cast<uint32_t>(dump_.frames.size()));
            if (inserted) {
                dump_.frames.push_back(made);
            }
            known = found->second;
        }
        id = known;
        return true;
    }

    const Value* input_dtypes_ = nullptr;
    const Value* output_dtypes_ = nullptr;
    std::vector<uint32_t> frame_of_container_;
    std::map<std::tuple<uint32_t, uint32_t, int64_t>, uint32_t> frame_ids_;

    struct KnownKey {
        const char* text = nullptr;
        uint32_t size = 0;
        Key key = Key::kOther;
    };
    std::array<KnownKey, 256> known_keys_;
};

class DumpReader : public EntryReader {
  public:
    using EntryReader::EntryReader;

    Result<bool> read_all() {
        const Value& root = tree_.root();
        if (root.kind != Kind::kDict || tree_.find(root, "version") == nullptr ||
            (tree_.find(root, "entries") == nullptr && tree_.find(root, "pg_config") == nullptr)) {
            return Error("no Flight Recorder dump: it has no version with entries or process groups");
        }
        for (const auto& [key, part] :
             std::initializer_list<std::pair<const char*, Part>>{{"version", &DumpReader::version},
                                                                 {"rank", &DumpReader::rank},
                                                                 {"host_name", &DumpReader::host_name},
                                                                 {"comm_lib_version", &DumpReader::library},
                                                                 {"nccl_version", &DumpReader::library},
                                                                 {"pg_config", &DumpReader::groups},
                                                                 {"pg_status", &DumpReader::status},
                                                                 {"entries", &DumpReader::entries}}) {
            const Value* value = tree_.find(root, key);
            std::string place = key;
            if (value != nullptr && value->kind != Kind::kNone && !(this->*part)(*value, place)) {
                return Error(failure()).within(place);
            }
        }
        return true;
    }

  private:
    using Part = bool (DumpReader::*)(const Value&, std::string& place);

    bool word(const Value& value, std::string& into) {
        if (value.kind != Kind::kText) {
            return wrong(value, "a text");
        }
        into = tree_.text(value);
        return true;
    }

    bool version(const Value& value, std::string&) {
        if (!word(value, dump_.version)) {
            return false;
        }
        int major = 0;
        const char* end = dump_.version.data() + dump_.version.size();
        const auto first = std::from_chars(dump_.version.data(), end, major);
        if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.' ||
            std::from_chars(first.ptr + 1, end, dump_.minor).ec != std::errc()) {
            return fail("not a version such as 2.10");
        }
        return major == 2 ||
               fail(major < 2 ? fmt::format("version {} is older than PyTorch 2.4, whose dumps are version 2", major)
                              : fmt::format("version {} is newer than the 2 that is known", major));
    }
    bool rank(const Value& value, std::string&) {
        if (!number(value, dump_.rank)) {
            return false;
        }
        return (dump_.rank >= 0 && dump_.rank < static_cast<int64_t>(kMaxRanks)) || fail("no rank of any job");
    }
    bool host_name(const Value& value, std::string&) { return word(value, dump_.host_name); }
    bool library(const Value& value, std::string&) { return word(value, dump_.library_version); }

    bool groups(const Value& value, std::string& place) {
        if (value.kind != Kind::kDict) {
            return wrong(value, "a dict");
        }
        const std::span<const Value> pairs = tree_.items(value);
        for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
            Group group;
            const Value& config = pairs[i + 1];
            place = fmt::format("pg_config[{}]", tree_.text(pairs[i]));
            if (config.kind != Kind::kDict) {
                return wrong(config, "a dict");
            }
            if (!text(pairs[i], group.name)) {
                return false;
            }
            const Value* desc = tree_.find(config, "desc");
            const Value* ranks = tree_.find(config, "ranks");
            if ((desc != nullptr && !text(*desc, group.desc)) ||
                (ranks != nullptr && !group_ranks(*ranks, group.ranks))) {
                return false;
            }
            dump_.groups.push_back(std::move(group));
        }
        return true;
    }

    bool add_rank(int64_t rank, std::vector<int32_t>& ranks) {
        if (rank < 0 || rank >= static_cast<int64_t>(kMaxRanks) || ranks.size() >= kMaxRanks) {
            return fail("no ranks of any job");
        }
        ranks.push_back(static_cast<int32_t>(rank));
        return true;
    }

    // A list, or as PyTorch writes it, the text of one: "[0, 1]".
    bool group_ranks(const Value& value, std::vector<int32_t>& ranks) {
        if (value.is_sequence()) {
            const std::span<const Value> items = tree_.items(value);
            return visit(items.size()) && std::all_of(items.begin(), items.end(), [&](const Value& item) {
                       int64_t rank = -1;
                       return number(item, rank) && add_rank(rank, ranks);
                   });
        }
        if (value.kind != Kind::kText) {
            return wrong(value, "a list of ranks");
        }
        std::string_view text = tree_.text(value);
        if (!visit(text.size())) {
            return false;
        }
        while (!text.empty()) {
            const size_t digit = text.find_first_of("0123456789");
            if (text.find_first_not_of("[](), \n") < digit) {
                return fail("not a list of ranks such as [0, 1]");
            }
            if (digit == std::string_view::npos) {
                break;
            }
            int64_t rank = -1;
            const auto [end, error] = std::from_chars(text.data() + digit, text.data() + text.size(), rank);
            if (error != std::errc() || !add_rank(rank, ranks)) {
                return fail("no ranks of any job");
            }
            text.remove_prefix(static_cast<size_t>(end - text.data()));
        }
        return true;
    }

    bool status(const Value& value, std::string& place) {
        if (value.kind != Kind::kDict) {
            return wrong(value, "a dict");
        }
        const std::span<const Value> pairs = tree_.items(value);
        for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
            place = fmt::format("pg_status[{}]", tree_.text(pairs[i]));
            GroupStatus status;
            if (pairs[i + 1].kind != Kind::kDict) {
                return wrong(pairs[i + 1], "a dict");
            }
            if (!text(pairs[i], status.pg_id)) {
                return false;
            }
            for (const auto& [key, into] : std::initializer_list<std::pair<const char*, int64_t*>>{
                     {"last_enqueued_collective", &status.last_enqueued},
                     {"last_started_collective", &status.last_started},
                     {"last_completed_collective", &status.last_completed}}) {
                const Value* number_value = tree_.find(pairs[i + 1], key);
                if (number_value != nullptr && !number(*number_value, *into)) {
                    place += fmt::format(".{}", key);
                    return false;
                }
            }
            dump_.status.push_back(status);
        }
        return true;
    }

    bool entries(const Value& value, std::string& place) {
        if (!value.is_sequence()) {
            return wrong(value, "a list");
        }
        const std::span<const Value> items = tree_.items(value);
        dump_.entries.reserve(items.size());
        bool numbered = true;
        for (size_t i = 0; i < items.size(); ++i) {
            std::string inner;
            Entry& entry = dump_.entries.emplace_back();
            if (!read(items[i], entry, inner)) {
                place = fmt::format("entries[{}]{}", i, inner);
                return false;
            }
            numbered &= entry.record_id != kUnknownNumber;
        }
        // PyTorch writes them in order; programs that merge or filter dumps may not.
        const auto recorded_before = [](const Entry& a, const Entry& b) { return a.record_id < b.record_id; };
        if (numbered && !std::is_sorted(dump_.entries.begin(), dump_.entries.end(), recorded_before)) {
            std::stable_sort(dump_.entries.begin(), dump_.entries.end(), recorded_before);
        }
        return true;
    }
};

}  // namespace

Result<Dump> to_dump(const Tree& tree, size_t file_bytes) {
    Dump dump;
    DumpReader reader(tree, file_bytes, dump);
    const Result<bool> done = reader.read_all();
    return done ? Result<Dump>(std::move(dump)) : Result<Dump>(done.error());
}

}  // namespace titan::format::fr
