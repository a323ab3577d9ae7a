// NVTX injection: NVTX hands its function table to the library that NVTX_INJECTION64_PATH names, once per library of
// the program that uses it. Our functions translate into the tracer's ranges. Entries that we do not fill in stay
// no-ops.
//
// Layouts from nvtx3's own headers. Handles of domains and registered strings are ours: small objects that live as long
// as the process, because a program may use them until its end.
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "plugin_env.h"
#include "tracer/ranges.h"

// Types that NVTX's headers leave incomplete; we hand out pointers to them.
struct nvtxDomainRegistration_st {
    bool ignored;
    char name[1];
};
struct nvtxStringRegistration_st {
    char text[1];
};

namespace titan::interpose {

namespace {

constexpr size_t kTextBytes = 241;  // the tracer keeps as much of a name
constexpr uint32_t kMaxRegistrations = 1 << 16;
constexpr const char* kUnnamed = "range";

constinit std::atomic<uint32_t> registrations{0};

// Unicode to UTF-8; wchar_t is UTF-32 here. Invalid characters become U+FFFD.
void narrow(const wchar_t* text, char (&out)[kTextBytes]) {
    size_t used = 0;
    for (; text != nullptr && *text != 0; ++text) {
        auto code = static_cast<uint32_t>(*text);  // NOLINT(bugprone-signed-char-misuse): it is no char
        code = code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) ? 0xFFFD : code;
        const size_t bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        if (used + bytes >= kTextBytes) {
            break;
        }
        constexpr unsigned char kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
        for (size_t i = bytes; i-- > 1; code >>= 6) {
            out[used + i] = static_cast<char>(0x80 | (code & 0x3F));
        }
        out[used] = static_cast<char>(kLead[bytes] | code);
        used += bytes;
    }
    out[used] = '\0';
}

// A registration with its text behind it, or null when there are too many or no memory.
template <typename Registration>
Registration* register_text(const char* text, size_t offset) {
    const size_t length = text != nullptr ? strnlen(text, kTextBytes - 1) : 0;
    if (registrations.fetch_add(1, std::memory_order_relaxed) >= kMaxRegistrations) {
        return nullptr;
    }
    auto* const memory = static_cast<char*>(calloc(1, sizeof(Registration) + length));
    if (memory != nullptr && length > 0) {
        memcpy(memory + offset, text, length);
    }
    return reinterpret_cast<Registration*>(memory);
}

bool is_ignored(nvtxDomainHandle_t domain) { return domain != nullptr && domain->ignored; }

// The name to record, in `room` where it must be put together: the domain's, unless it is the default one, and the
// message.
struct Name {
    char room[2 * kTextBytes];
    char wide[kTextBytes];

    const char* in_domain(nvtxDomainHandle_t domain, const char* text) {
        text = text != nullptr && *text != '\0' ? text : kUnnamed;
        if (domain == nullptr || domain->name[0] == '\0') {
            return text;
        }
        snprintf(room, sizeof(room), "%s:%s", domain->name, text);
        return room;
    }
    const char* of(const wchar_t* text) {
        narrow(text, wide);
        return in_domain(nullptr, wide);
    }
    const char* of(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
        const char* text = nullptr;
        // An older program's structure may be shorter; the message ends it in all versions so far.
        if (event != nullptr && event->size >= sizeof *event) {
            switch (event->messageType) {
                case NVTX_MESSAGE_TYPE_ASCII: text = event->message.ascii; break;
                case NVTX_MESSAGE_TYPE_UNICODE:
                    narrow(event->message.unicode, wide);
                    text = wide;
                    break;
                case NVTX_MESSAGE_TYPE_REGISTERED:
                    text = event->message.registered != nullptr ? event->message.registered->text : nullptr;
                    break;
                default: break;
            }
        }
        return in_domain(domain, text);
    }
};

// The functions below are in the order of NVTX's tables. NCCL's own domain is left out: it names calls that are
// recorded anyway.
void NVTX_API mark_ex(const nvtxEventAttributes_t* event) { tracer::range_mark(Name().of(nullptr, event)); }
void NVTX_API mark_a(const char* text) { tracer::range_mark(Name().in_domain(nullptr, text)); }
void NVTX_API mark_w(const wchar_t* text) { tracer::range_mark(Name().of(text)); }
nvtxRangeId_t NVTX_API start_ex(const nvtxEventAttributes_t* event) {
    return tracer::range_start(Name().of(nullptr, event));
}
nvtxRangeId_t NVTX_API start_a(const char* text) { return tracer::range_start(Name().in_domain(nullptr, text)); }
nvtxRangeId_t NVTX_API start_w(const wchar_t* text) { return tracer::range_start(Name().of(text)); }
void NVTX_API end(nvtxRangeId_t id) { tracer::range_end(id); }
int NVTX_API push_ex(const nvtxEventAttributes_t* event) {
    return tracer::range_push(nullptr, Name().of(nullptr, event));
}
int NVTX_API push_a(const char* text) { return tracer::range_push(nullptr, Name().in_domain(nullptr, text)); }
int NVTX_API push_w(const wchar_t* text) { return tracer::range_push(nullptr, Name().of(text)); }
int NVTX_API pop() { return tracer::range_pop(nullptr); }

void NVTX_API domain_mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
    if (!is_ignored(domain)) {
        tracer::range_mark(Name().of(domain, event));
    }
}
nvtxRangeId_t NVTX_API domain_start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
    return is_ignored(domain) ? 0 : tracer::range_start(Name().of(domain, event));
}
void NVTX_API domain_end(nvtxDomainHandle_t, nvtxRangeId_t id) { tracer::range_end(id); }
int NVTX_API domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
    return is_ignored(domain) ? 0 : tracer::range_push(domain, Name().of(domain, event));
}
int NVTX_API domain_pop(nvtxDomainHandle_t domain) { return is_ignored(domain) ? 0 : tracer::range_pop(domain); }

nvtxStringHandle_t NVTX_API register_a(nvtxDomainHandle_t, const char* text) {
    return register_text<nvtxStringRegistration_st>(text, offsetof(nvtxStringRegistration_st, text));
}
nvtxStringHandle_t NVTX_API register_w(nvtxDomainHandle_t domain, const wchar_t* text) {
    char narrowed[kTextBytes];
    narrow(text, narrowed);
    return register_a(domain, narrowed);
}
nvtxDomainHandle_t NVTX_API create_domain_a(const char* name) {
    auto* const domain = register_text<nvtxDomainRegistration_st>(name, offsetof(nvtxDomainRegistration_st, name));
    if (domain != nullptr) {
        domain->ignored = strcmp(domain->name, "NCCL") == 0;
    }
    return domain;
}
nvtxDomainHandle_t NVTX_API create_domain_w(const wchar_t* name) {
    char narrowed[kTextBytes];
    narrow(name, narrowed);
    return create_domain_a(narrowed);
}

struct Slot {
    NvtxCallbackModule module;
    unsigned number;
    NvtxFunctionPointer function;
};

// The type of each slot is checked against NVTX's.
#define TITAN_SLOT(module, id, type, function) \
    { module, id, reinterpret_cast<NvtxFunctionPointer>(static_cast<type>(&function)) }
#define TITAN_CORE(name, function) \
    TITAN_SLOT(NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_##name, nvtx##name##_impl_fntype, function)
#define TITAN_CORE2(name, function) \
    TITAN_SLOT(NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_##name, nvtx##name##_impl_fntype, function)
const Slot kSlots[] = {
    TITAN_CORE(MarkEx, mark_ex),
    TITAN_CORE(MarkA, mark_a),
    TITAN_CORE(MarkW, mark_w),
    TITAN_CORE(RangeStartEx, start_ex),
    TITAN_CORE(RangeStartA, start_a),
    TITAN_CORE(RangeStartW, start_w),
    TITAN_CORE(RangeEnd, end),
    TITAN_CORE(RangePushEx, push_ex),
    TITAN_CORE(RangePushA, push_a),
    TITAN_CORE(RangePushW, push_w),
    TITAN_CORE(RangePop, pop),
    TITAN_CORE2(DomainMarkEx, domain_mark),
    TITAN_CORE2(DomainRangeStartEx, domain_start),
    TITAN_CORE2(DomainRangeEnd, domain_end),
    TITAN_CORE2(DomainRangePushEx, domain_push),
    TITAN_CORE2(DomainRangePop, domain_pop),
    TITAN_CORE2(DomainRegisterStringA, register_a),
    TITAN_CORE2(DomainRegisterStringW, register_w),
    TITAN_CORE2(DomainCreateA, create_domain_a),
    TITAN_CORE2(DomainCreateW, create_domain_w),
};
#undef TITAN_CORE2
#undef TITAN_CORE
#undef TITAN_SLOT

}  // namespace

}  // namespace titan::interpose

// 1 when NVTX shall call us from now on.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
    using titan::interpose::kSlots;
    if (!titan::interpose::is_nvtx_meant()) {
        return 0;
    }
    const void* const found = get_table != nullptr ? get_table(NVTX_ETID_CALLBACKS) : nullptr;
    const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(found);
    if (callbacks == nullptr || callbacks->struct_size < sizeof *callbacks) {
        return 0;
    }
    for (const auto& slot : kSlots) {
        NvtxFunctionTable table = nullptr;
        unsigned size = 0;
        if (callbacks->GetModuleFunctionTable(slot.module, &table, &size) == 1 && table != nullptr &&
            slot.number < size && table[slot.number] != nullptr) {
            *table[slot.number] = slot.function;
        }
    }
    return 1;
}
