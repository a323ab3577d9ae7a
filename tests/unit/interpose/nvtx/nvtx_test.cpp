// NVTX as a program uses it, through NVIDIA's own headers, into a real session of this process.
#include <doctest/doctest.h>
#include <nvtx3/nvToolsExt.h>

#include <string>
#include <thread>
#include <vector>

#include "fixture.h"
#include "plugin_env.h"
#include "thread_state.h"

using namespace titan;
using format::MarkerKind;

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

// This program is not preloaded, and means it all the same.
bool titan::interpose::is_nvtx_meant() { return true; }

namespace {

// How NVTX finds a tool that is linked into the program.
const bool injected = (InitializeInjectionNvtx2_fnptr = InitializeInjectionNvtx2, true);

std::string text_of(uint32_t id) {
    format::RingHeader& header = *test::recording().header;
    if (id == 0) {
        return "";
    }
    const char* const base = reinterpret_cast<const char*>(&header);
    const format::StringRecord* record = nullptr;
    const char* heap = nullptr;
    for (const auto& region : header.regions) {
        if (region.kind == format::RegionKind::kStringIndex) {
            record = reinterpret_cast<const format::StringRecord*>(base + region.offset_bytes) + id - 1;
        } else if (region.kind == format::RegionKind::kStringHeap) {
            heap = base + region.offset_bytes;
        }
    }
    return std::string(heap + record->offset_bytes, record->length_bytes - 1);
}

struct Seen {
    MarkerKind kind;
    std::string name;
    int depth;
    bool operator==(const Seen&) const = default;
};

// The markers since `from`.
std::vector<Seen> seen_since(uint64_t from) {
    std::vector<Seen> seen;
    auto& markers = test::recording().markers;
    for (uint64_t ticket = from; ticket < markers.head(); ++ticket) {
        const format::MarkerEntry* const marker = markers.find(ticket);
        REQUIRE(marker != nullptr);
        seen.push_back({marker->kind, text_of(marker->name), marker->depth});
    }
    return seen;
}

uint64_t now() { return test::recording().markers.head(); }

nvtxEventAttributes_t event(nvtxMessageType_t type, nvtxMessageValue_t message) {
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = type;
    attributes.message = message;
    return attributes;
}

nvtxEventAttributes_t event(const char* text) { return event(NVTX_MESSAGE_TYPE_ASCII, {.ascii = text}); }

uint64_t dropped() { return test::recording().header->losses[static_cast<size_t>(format::Loss::kRangesDropped)]; }

}  // namespace

TEST_CASE("ranges become spans, in any spelling") {
    REQUIRE(injected);
    const uint64_t from = now();
    CHECK(nvtxRangePushA("outer") == 0);
    CHECK(nvtxRangePushW(L"gr\u00FC\u00DFe \U0001F680") == 1);
    CHECK(tracer::this_thread()->record->span_depth == 2);
    CHECK(nvtxRangePop() == 1);
    const auto attributes = event("with attributes");
    nvtxRangePushEx(&attributes);
    nvtxRangePop();
    CHECK(nvtxRangePop() == 0);
    CHECK(nvtxRangePop() == -1);
    const std::vector<Seen> expected{{MarkerKind::kSpanBegin, "outer", 0},
                                     {MarkerKind::kSpanBegin, "gr\u00FC\u00DFe \U0001F680", 1},
                                     {MarkerKind::kSpanEnd, "gr\u00FC\u00DFe \U0001F680", 1},
                                     {MarkerKind::kSpanBegin, "with attributes", 1},
                                     {MarkerKind::kSpanEnd, "with attributes", 1},
                                     {MarkerKind::kSpanEnd, "outer", 0}};
    CHECK(seen_since(from) == expected);
    CHECK(tracer::this_thread()->record->span_depth == 0);
}

TEST_CASE("marks become events, and ranges that end on another thread spans that nest in nothing") {
    const uint64_t from = now();
    nvtxMarkA("a mark");
    const nvtxRangeId_t id = nvtxRangeStartA("loading");
    const nvtxRangeId_t other = nvtxRangeStartA("loading");
    CHECK(id != other);
    CHECK(tracer::this_thread()->record->span_depth == 0);
    std::thread([&] { nvtxRangeEnd(id); }).join();
    nvtxMarkA(nullptr);
    nvtxRangeEnd(other);
    const std::vector<Seen> expected{{MarkerKind::kEvent, "a mark", 0},      {MarkerKind::kSpanBegin, "loading", 0},
                                     {MarkerKind::kSpanBegin, "loading", 0}, {MarkerKind::kSpanEnd, "loading", 0},
                                     {MarkerKind::kEvent, "range", 0},       {MarkerKind::kSpanEnd, "loading", 0}};
    CHECK(seen_since(from) == expected);
}

TEST_CASE("a domain names its ranges, registered strings are followed, NCCL's own domain is left out") {
    const uint64_t from = now();
    nvtxDomainHandle_t const domain = nvtxDomainCreateA("loader");
    nvtxDomainHandle_t const nccl = nvtxDomainCreateA("NCCL");
    REQUIRE(domain != nullptr);
    nvtxStringHandle_t const name = nvtxDomainRegisterStringA(domain, "batch");
    nvtxStringHandle_t const wide = nvtxDomainRegisterStringW(domain, L"b\u00E4tch");
    const auto attributes = event(NVTX_MESSAGE_TYPE_REGISTERED, {.registered = name});
    const auto wide_attributes = event(NVTX_MESSAGE_TYPE_REGISTERED, {.registered = wide});
    const auto nccl_attributes = event("ncclAllReduce");
    nvtxDomainRangePushEx(domain, &attributes);
    nvtxDomainRangePushEx(nccl, &nccl_attributes);
    nvtxDomainMarkEx(nccl, &nccl_attributes);
    nvtxDomainMarkEx(domain, &wide_attributes);
    nvtxDomainRangePop(nccl);
    nvtxDomainRangePop(domain);
    const std::vector<Seen> expected{{MarkerKind::kSpanBegin, "loader:batch", 0},
                                     {MarkerKind::kEvent, "loader:b\u00E4tch", 0},
                                     {MarkerKind::kSpanEnd, "loader:batch", 0}};
    CHECK(seen_since(from) == expected);
}

TEST_CASE("ranges of two domains that overlap end when they can") {
    nvtxDomainHandle_t const one = nvtxDomainCreateA("one");
    nvtxDomainHandle_t const other = nvtxDomainCreateA("other");
    const auto attributes = event("x");
    const uint64_t from = now();
    CHECK(nvtxDomainRangePushEx(one, &attributes) == 0);
    CHECK(nvtxDomainRangePushEx(other, &attributes) == 0);
    CHECK(nvtxDomainRangePop(one) == 0);
    CHECK(tracer::this_thread()->record->span_depth == 2);
    CHECK(nvtxDomainRangePop(one) == -1);
    CHECK(nvtxDomainRangePop(other) == 0);
    CHECK(tracer::this_thread()->record->span_depth == 0);
    CHECK(seen_since(from).size() == 4);
}

TEST_CASE("more than the limit is counted and dropped, and a dropped begin has no end") {
    auto& config = test::recording().config;
    const uint32_t before = config.nvtx_per_second;
    nvtxRangePushA("kept");
    const uint64_t from = now();
    const uint64_t dropped_before = dropped();
    config.nvtx_per_second = 1;
    for (int i = 0; i < 100; ++i) {
        nvtxRangePushA("too many");
        nvtxMarkA("too many");
        CHECK(nvtxRangePop() == 1);
    }
    CHECK(tracer::this_thread()->record->span_depth == 1);
    CHECK(seen_since(from).size() <= 4);  // the window may turn over
    CHECK(dropped() >= dropped_before + 196);
    config.nvtx_per_second = 0;
    const uint64_t dropped_now = dropped();
    nvtxMarkA("off");
    CHECK(dropped() == dropped_now);  // nobody asked for it, so nothing is missing
    config.nvtx_per_second = before;
    nvtxRangePop();
    CHECK(tracer::this_thread()->record->span_depth == 0);
}

TEST_CASE("ranges nested without end are followed as far as there is room") {
    const int depth = 500;
    for (int i = 0; i < depth; ++i) {
        nvtxRangePushA("deep");
    }
    for (int i = 0; i < depth; ++i) {
        CHECK(nvtxRangePop() >= 0);
    }
    CHECK(nvtxRangePop() == -1);
    CHECK(tracer::this_thread()->record->span_depth == 0);
}

TEST_CASE("an NVTX that offers less than we know is served as far as it goes") {
    CHECK(InitializeInjectionNvtx2(nullptr) == 0);
    CHECK(InitializeInjectionNvtx2([](uint32_t) -> const void* { return nullptr; }) == 0);
    static NvtxExportTableCallbacks callbacks{sizeof(callbacks),
                                              [](NvtxCallbackModule, NvtxFunctionTable* table, unsigned* size) {
                                                  static NvtxFunctionPointer mark = nullptr;
                                                  static NvtxFunctionPointer* slots[] = {nullptr, &mark};
                                                  *table = slots;
                                                  *size = 2;
                                                  return 1;
                                              }};
    CHECK(InitializeInjectionNvtx2([](uint32_t) -> const void* { return &callbacks; }) == 1);
}
