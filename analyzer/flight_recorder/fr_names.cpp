#include "fr_names.h"

#include <fmt/format.h>

#include <charconv>

#include "function_name.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

struct CallRow {
    std::string_view name;
    OpKind kind;
    bool closes_group;
    bool sizes_may_differ;
};
constexpr CallRow kCalls[] = {
#define X(name, kind, closes_group, sizes_may_differ) {name, OpKind::kind, closes_group, sizes_may_differ},
#include "fr_calls.def"
#undef X
};

struct DatatypeRow {
    std::string_view names[2];
    Datatype datatype;
};
// c10::toString's words, and Python's.
constexpr DatatypeRow kDatatypes[] = {
    {{"Float", "float32"}, Datatype::kFloat32},
    {{"BFloat16", "bfloat16"}, Datatype::kBfloat16},
    {{"Half", "float16"}, Datatype::kFloat16},
    {{"Double", "float64"}, Datatype::kFloat64},
    {{"Long", "int64"}, Datatype::kInt64},
    {{"Int", "int32"}, Datatype::kInt32},
    {{"Byte", "uint8"}, Datatype::kUint8},
    {{"Bool", "bool"}, Datatype::kUint8},
    {{"Char", "int8"}, Datatype::kInt8},
    {{"UInt32", "uint32"}, Datatype::kUint32},
    {{"UInt64", "uint64"}, Datatype::kUint64},
    {{"Float8_e4m3fn", "float8_e4m3fn"}, Datatype::kFloat8e4m3},
    {{"Float8_e5m2", "float8_e5m2"}, Datatype::kFloat8e5m2},
};

int number_at(std::string_view text) {
    int number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() && number >= 0 ? number : -1;
}

std::string tensors_text(const format::fr::Dump& dump, const format::fr::Range& range) {
    constexpr uint32_t kShown = 4;
    std::string text = "[";
    for (uint32_t i = 0; i < std::min(range.count, kShown); ++i) {
        const format::fr::Tensor& tensor = dump.tensors[range.begin + i];
        text += i == 0 ? "[" : ", [";
        for (uint32_t dim = 0; dim < tensor.dims_count; ++dim) {
            text += fmt::format("{}{}", dim == 0 ? "" : ", ", dump.dims[tensor.dims_begin + dim]);
        }
        text += "]";
    }
    return text + (range.count > kShown ? fmt::format(", and {} more]", range.count - kShown) : "]");
}

}  // namespace

CallName parse_call_name(std::string_view profiling_name) {
    CallName name;
    const size_t colon = profiling_name.find(':');
    name.backend = colon == std::string_view::npos ? std::string_view() : profiling_name.substr(0, colon);
    std::string_view rest = colon == std::string_view::npos ? profiling_name : profiling_name.substr(colon + 1);
    const size_t space = rest.find(' ');
    name.op = rest.substr(0, space);
    for (const CallRow& row : kCalls) {
        if (row.name == name.op) {
            name.kind = row.kind;
            name.closes_group = row.closes_group;
            name.sizes_may_differ = row.sizes_may_differ;
        }
    }
    if (space != std::string_view::npos && (name.kind == OpKind::kSend || name.kind == OpKind::kRecv)) {
        rest = rest.substr(space + 1);
        const bool send = name.kind == OpKind::kSend;
        const size_t arrow = rest.find(send ? "->" : "<-");
        if (arrow != std::string_view::npos) {
            const int self = number_at(rest.substr(0, arrow));
            const int peer = number_at(rest.substr(arrow + 2));
            name.source = send ? self : peer;
            name.target = send ? peer : self;
        }
    }
    return name;
}

Datatype datatype_of(std::string_view torch_name) {
    if (torch_name.starts_with("torch.")) {
        torch_name.remove_prefix(6);
    }
    for (const DatatypeRow& row : kDatatypes) {
        if (row.names[0] == torch_name || row.names[1] == torch_name) {
            return row.datatype;
        }
    }
    return Datatype::kNoDatatype;
}

namespace {

// A program's author looks for Python first, where there are frames of both; for PyTorch's own last.
int likeness(const format::fr::Dump& dump, uint32_t frame) {
    const std::string& file = dump.text(dump.frames[frame].file);
    return is_framework_file(file) ? 0 : file.ends_with(".py") ? 2 : 1;
}

// Innermost first; where all frames are PyTorch's own, the innermost of those.
std::vector<uint32_t> program_frames(const format::fr::Dump& dump, const format::fr::Entry& entry, size_t most) {
    const auto frame_at = [&](uint32_t i) { return dump.stacks[entry.stack.begin + i]; };
    int best = 0;
    for (uint32_t i = 0; i < entry.stack.count; ++i) {
        best = std::max(best, likeness(dump, frame_at(i)));
    }
    std::vector<uint32_t> frames;
    for (uint32_t i = 0; i < entry.stack.count && frames.size() < (best == 0 ? 1 : most); ++i) {
        if (likeness(dump, frame_at(i)) == best) {
            frames.push_back(frame_at(i));
        }
    }
    return frames;
}

std::string joined_places(const format::fr::Dump& dump, const format::fr::Entry& entry, size_t most) {
    std::string text;
    for (const uint32_t number : program_frames(dump, entry, most)) {
        const format::fr::Frame& frame = dump.frames[number];
        const std::string& file = dump.text(frame.file);
        text += (text.empty() ? "" : ", from ") +
                fmt::format("{}:{} in {}", base_name(file), frame.line, dump.text(frame.name));
    }
    return printable(text);
}

}  // namespace

std::string call_site(const format::fr::Dump& dump, const format::fr::Entry& entry) {
    return joined_places(dump, entry, 1);
}

std::string call_way(const format::fr::Dump& dump, const format::fr::Entry& entry) {
    return joined_places(dump, entry, 3);
}

std::string shapes_text(const format::fr::Dump& dump, const format::fr::Entry& entry) {
    if (entry.inputs.count == 0 && entry.outputs.count == 0) {
        return {};
    }
    return tensors_text(dump, entry.inputs) + " -> " + tensors_text(dump, entry.outputs);
}

std::string group_text(std::string_view name, std::string_view description) {
    if (description == "default_pg" || (name.empty() && !description.empty())) {
        return printable(description);
    }
    constexpr size_t kLongestNumber = 8;  // longer names are hashes
    const std::string_view role = description.empty() || description == "undefined" ? "pg" : description;
    return printable(fmt::format("{}:{}", role, name.substr(0, kLongestNumber)));
}

}  // namespace titan::analyzer
