// Region kCallSites of a ring: from where the program makes its NCCL calls. FORMAT.md is the prose twin.
//
// Everything is written once and stays: a stack is a row that entries refer to (CollectiveEntry::stack is its row + 1),
// its frames are numbers of places, a place says in words where that is. Offsets and counts come from the header.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/layout/ring_layout.h"
#include "formats/layout/stacks_layout.h"

namespace titan::format {

enum class CallSiteTable : uint32_t {
    kStacks = 0,
    kPlaces = 1,
    kFrames = 2,
    kTextIndex = 3,
    kTextHeap = 4,
    kModules = 5
};
inline constexpr uint32_t kCallSiteTables = 8;  // room for more

enum CallSiteKinds : uint32_t {
    kNativeSites = 1 << 0,
    kPythonSites = 1 << 1,
};

struct CallSiteTableDescriptor {
    uint64_t offset_bytes;  // counted from the start of the region
    uint32_t stride_bytes;
    uint32_t count;  // room
};
static_assert(sizeof(CallSiteTableDescriptor) == 16);

struct CallSitesHeader {
    uint32_t header_bytes;
    uint32_t kinds;    // CallSiteKinds that are asked for
    uint32_t python;   // (later) text: which Python, or why its frames are missing; 0 none
    uint32_t native;   // (later) text: why native frames are missing or cut; 0 none
    uint64_t dropped;  // (later) calls whose stack found no room
    uint64_t reserved[5];
    CallSiteTableDescriptor tables[kCallSiteTables];
    RegionCursor cursors[kCallSiteTables];  // rows or bytes handed out
};
static_assert(sizeof(CallSitesHeader) == 704);
static_assert(offsetof(CallSitesHeader, cursors) % 64 == 0);

enum CallStackFlags : uint8_t {
    kNativeCut = 1 << 0,  // more native frames would follow
    kPythonCut = 1 << 1,
};

// Open addressing by hash.
struct CallStackRecord {
    uint64_t hash;          // 0 free
    uint64_t uses;          // (later) calls that were made from there
    uint32_t first_frame;   // row of the frames
    uint16_t native_count;  // innermost first; then
    uint16_t python_count;  // innermost first
    uint8_t published;      // written last
    uint8_t flags;          // CallStackFlags
    uint16_t reserved16;
    uint32_t reserved32;
};
static_assert(sizeof(CallStackRecord) == 32);

// A frame: row of its place + 1, 0 where there was no room for it; and for Python whether it is the outermost of one
// run of the interpreter's C function.
using CallFrame = uint32_t;
inline constexpr uint32_t kEntryFrame = 1u << 31;

// Open addressing by key.
struct CallPlace {
    uint64_t key;       // 0 free
    uint64_t address;   // native: where execution goes on, behind the call; Python: 0
    uint32_t file;      // Python: text
    uint32_t function;  // Python: text, qualified where Python knows that
    int32_t line;       // Python: 0 unknown
    uint8_t published;  // written last
    uint8_t reserved8[3];
};
static_assert(sizeof(CallPlace) == 32);

// The tables as the tracer lays them out; readers go by the header. Hashed tables are powers of two.
struct CallSiteTableSize {
    CallSiteTable table;
    uint32_t stride_bytes;
    uint32_t count;
};
inline constexpr uint32_t kCallStackRows = 4096;
inline constexpr uint32_t kCallPlaceRows = 8192;
inline constexpr uint32_t kCallFrameRows = 64 << 10;
inline constexpr uint32_t kCallTextRows = 4096;
inline constexpr uint32_t kCallTextHeapBytes = 256 << 10;
inline constexpr uint32_t kCallModuleRows = 1024;
inline constexpr CallSiteTableSize kCallSiteTableSizes[] = {
    {CallSiteTable::kStacks, sizeof(CallStackRecord), kCallStackRows},
    {CallSiteTable::kPlaces, sizeof(CallPlace), kCallPlaceRows},
    {CallSiteTable::kFrames, sizeof(CallFrame), kCallFrameRows},
    {CallSiteTable::kTextIndex, sizeof(StringRecord), kCallTextRows},
    {CallSiteTable::kTextHeap, 1, kCallTextHeapBytes},
    {CallSiteTable::kModules, sizeof(StackModule), kCallModuleRows},
};

// Size of the whole region.
constexpr uint64_t call_sites_bytes() {
    uint64_t bytes = sizeof(CallSitesHeader);
    for (const CallSiteTableSize& size : kCallSiteTableSizes) {
        bytes += uint64_t{size.stride_bytes} * size.count;
    }
    return bytes;
}

}  // namespace titan::format
