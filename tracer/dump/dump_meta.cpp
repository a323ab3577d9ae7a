#include "dump_meta.h"

#include <string.h>

#include "base/utf8.h"

namespace titan::tracer {
namespace {

constexpr const char* kPrefixes[] = {"NCCL_", "CUDA_", "TORCH_", "TORCHELASTIC_", "TITANTRACE", "UCX_", "OFI_", "FI_"};
// Words in the names of variables whose values are nobody's business.
constexpr const char* kSecrets[] = {"_KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "AUTH"};

bool wanted(const char* variable, const char* equals) {
    for (const char* secret : kSecrets) {
        const char* found = strstr(variable, secret);
        if (found != nullptr && found < equals) {
            return false;
        }
    }
    for (const char* prefix : kPrefixes) {
        if (starts_with(variable, prefix)) {
            return true;
        }
    }
    return false;
}

void write_machine(TextWriter& json, const Machine& machine) {
    const struct {
        const char* key;
        const char* value;
    } facts[] = {{"processor", machine.processor}, {"kernel", machine.kernel}, {"gpu_driver", machine.gpu_driver},
                 {"gpus", machine.gpus},           {"torch", machine.torch},   {"infiniband", machine.infiniband}};
    json.text(",\"machine\":{");
    bool first = true;
    for (const auto& fact : facts) {
        if (fact.value[0] != '\0') {
            json.format("%s\"%s\":", first ? "" : ",", fact.key);
            json_string(json, fact.value, strlen(fact.value));
            first = false;
        }
    }
    json.put('}');
}

}  // namespace

size_t write_environment(char* out, size_t capacity_bytes, const char* const* variables) {
    // One escaped byte takes at most six: with this much room left, a variable fits whole.
    constexpr size_t kWorstVariableBytes = 2 * (6 * kMaxJsonValueBytes + 8);
    TextWriter json(out, capacity_bytes);
    json.put('{');
    bool first = true;
    for (; variables != nullptr && *variables != nullptr; ++variables) {
        const char* equals = strchr(*variables, '=');
        if (equals == nullptr || !wanted(*variables, equals)) {
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
    if (meta.halt[0] != '\0') {
        json.text(",\"halt\":");
        json_string(json, meta.halt, strlen(meta.halt));
    }
    write_processors(json, meta.processors);
    write_machine(json, meta.machine);
    json.text(meta.children);
    json.text(",\"environment\":");
    json.text(meta.environment);
    json.put('}');
    return json.size_bytes();
}

void json_string(TextWriter& json, const char* text, size_t size_bytes) {
    if (size_bytes > kMaxJsonValueBytes) {
        size_bytes = kMaxJsonValueBytes;
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

}  // namespace titan::tracer
