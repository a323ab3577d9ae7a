#include "dump_meta.h"

#include <string.h>

namespace titan::tracer {
namespace {

constexpr size_t kMaxValueBytes = 512;
constexpr const char* kPrefixes[] = {"NCCL_", "CUDA_", "TORCH_NCCL_", "TORCHELASTIC_", "TITANTRACE"};

// A JSON string of at most `limit_bytes` of text. Bytes above ASCII pass only as whole UTF-8 sequences.
size_t utf8_length(const char* text, size_t left_bytes) {
    auto byte = static_cast<unsigned char>(text[0]);
    size_t length = byte < 0x80                   ? 1
                    : byte >= 0xc2 && byte < 0xe0 ? 2
                    : byte >= 0xe0 && byte < 0xf0 ? 3
                    : byte >= 0xf0 && byte < 0xf5 ? 4
                                                  : 0;
    if (length == 0 || length > left_bytes) {
        return 0;
    }
    auto second = static_cast<unsigned char>(length > 1 ? text[1] : 0x80);
    // Overlong forms, surrogates and code points past U+10FFFF are no UTF-8.
    if ((byte == 0xe0 && second < 0xa0) || (byte == 0xed && second > 0x9f) || (byte == 0xf0 && second < 0x90) ||
        (byte == 0xf4 && second > 0x8f)) {
        return 0;
    }
    for (size_t i = 1; i < length; ++i) {
        if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) {
            return 0;
        }
    }
    return length;
}

void json_string(TextWriter& json, const char* text, size_t size_bytes) {
    if (size_bytes > kMaxValueBytes) {
        size_bytes = kMaxValueBytes;
    }
    json.put('"');
    for (size_t i = 0; i < size_bytes;) {
        size_t length = utf8_length(text + i, size_bytes - i);
        auto byte = static_cast<unsigned char>(text[i]);
        if (length == 0) {
            json.text("\\ufffd");
            ++i;
        } else if (byte == '"' || byte == '\\') {
            json.put('\\');
            json.put(text[i++]);
        } else if (byte < 0x20 || byte == 0x7f) {
            json.text("\\u");
            json.number(byte, 16, 4);
            ++i;
        } else {
            json.text(text + i, length);
            i += length;
        }
    }
    json.put('"');
}

bool wanted(const char* variable) {
    for (const char* prefix : kPrefixes) {
        if (starts_with(variable, prefix)) {
            return true;
        }
    }
    return false;
}

}  // namespace

size_t write_environment(char* out, size_t capacity_bytes, const char* const* variables) {
    // One escaped byte takes at most six: with this much room left, a variable fits whole.
    constexpr size_t kWorstVariableBytes = 2 * (6 * kMaxValueBytes + 8);
    TextWriter json(out, capacity_bytes);
    json.put('{');
    bool first = true;
    for (; variables != nullptr && *variables != nullptr; ++variables) {
        const char* equals = strchr(*variables, '=');
        if (equals == nullptr || !wanted(*variables)) {
            continue;
        }
        if (json.size_bytes() + kWorstVariableBytes > capacity_bytes) {
            break;
        }
        json.text(first ? "" : ",");
        first = false;
        json_string(json, *variables, static_cast<size_t>(equals - *variables));
        json.put(':');
        json_string(json, equals + 1, strlen(equals + 1));
    }
    json.put('}');
    return json.size_bytes();
}

size_t write_meta(char* out, size_t capacity_bytes, const DumpMeta& meta) {
    TextWriter json(out, capacity_bytes);
    std::string_view reason = format::name_of(meta.reason);
    json.format("{\"schema\":1,\"dump\":%lu,\"reason\":", meta.number);
    json_string(json, reason.data(), reason.size());
    json.text(",\"detail\":");
    json_string(json, meta.detail, strlen(meta.detail));
    json.format(",\"requested_by_rank\":%d,\"realtime_ns\":%lu,\"ticks\":%lu,\"saved_by_rank\":%d,\"process_alive\":%s",
                meta.requested_by_rank, meta.realtime_ns, meta.ticks, meta.saved_by_rank,
                meta.process_alive ? "true" : "false");
    write_processors(json, meta.processors);
    json.text(",\"environment\":");
    json.text(meta.environment);
    json.put('}');
    return json.size_bytes();
}

}  // namespace titan::tracer
