#include "call_sites.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "code_place.h"

namespace titan::tracer {

namespace {

using format::CallPlace;
using format::CallSiteTable;
using format::CallStackRecord;
using python::Frame;

static_assert(format::kCallStackRows <= UINT16_MAX);  // CapturedCall::stack
constexpr uint64_t kSeed = 0x7469746E73697465;
constexpr uint64_t kNativeSeed = 0x6E61746976657075;

uint64_t not_zero(uint64_t hash) { return hash != 0 ? hash : 1; }

// Reads our own memory directly; for objects that the calling thread's frames keep alive.
size_t read_own(const Memory&, uint64_t address, void* into, size_t bytes) {
    constexpr uint64_t kFirstPageBytes = 4096;
    constexpr uint64_t kUserSpaceEnd = uint64_t{1} << 47;
    if (address < kFirstPageBytes || address >= kUserSpaceEnd || bytes > kUserSpaceEnd - address) {
        return 0;
    }
    memcpy(into, reinterpret_cast<const void*>(address), bytes);
    return bytes;
}

// The code object's address alone would take new code for the one that lay there before. Its names are shared by all
// code of that name, and its first line does the rest: what agrees in all of them says the same.
uint64_t key_of(const python::Layout& layout, const Frame& frame) {
    const auto* const code = reinterpret_cast<const char*>(frame.code);
    const auto line = static_cast<uint64_t>(field<uint32_t>(code, layout.code_first_line));
    const auto file = field<uint64_t>(code, layout.code_file);
    const auto name = field<uint64_t>(code, layout.code_qualname != 0 ? layout.code_qualname : layout.code_name);
    const auto offset = static_cast<uint64_t>(static_cast<uint32_t>(frame.offset));
    return not_zero(
        mix_hash(mix_hash(mix_hash(kSeed, frame.code), file ^ (name << 17 | name >> 47)), offset << 32 | line));
}

// Files are known by their ends.
const char* end_of(const char* text, size_t length_bytes) {
    if (length_bytes <= kMaxStringBytes) {
        return text;
    }
    const char* end = text + length_bytes - kMaxStringBytes;
    while ((*end & 0xC0) == 0x80) {  // inside a character
        ++end;
    }
    return end;
}

}  // namespace

void CallSites::start(char* region, uint32_t kinds, uint64_t& lost) {
    auto* const header = reinterpret_cast<format::CallSitesHeader*>(region);
    header->kinds = kinds;
    uint64_t offset_bytes = sizeof(format::CallSitesHeader);
    for (const format::CallSiteTableSize& size : format::kCallSiteTableSizes) {
        header->tables[static_cast<uint32_t>(size.table)] = {offset_bytes, size.stride_bytes, size.count};
        offset_bytes += uint64_t{size.stride_bytes} * size.count;
    }
    header_ = header;
    lost_ = &lost;
    stacks_ = {table<CallStackRecord>(CallSiteTable::kStacks), format::kCallStackRows,
               cursor(CallSiteTable::kStacks).head};
    places_ = {table<CallPlace>(CallSiteTable::kPlaces), format::kCallPlaceRows, cursor(CallSiteTable::kPlaces).head};
    frames_ = table<format::CallFrame>(CallSiteTable::kFrames);
    texts_ = StringTable(table<format::StringRecord>(CallSiteTable::kTextIndex), format::kCallTextRows,
                         table<char>(CallSiteTable::kTextHeap), format::kCallTextHeapBytes,
                         cursor(CallSiteTable::kTextHeap), lost);
    std::atomic_ref(header->header_bytes).store(sizeof(format::CallSitesHeader), std::memory_order_release);
}

template <typename T>
T* CallSites::table(CallSiteTable which) const {
    return reinterpret_cast<T*>(reinterpret_cast<char*>(header_) +
                                header_->tables[static_cast<uint32_t>(which)].offset_bytes);
}

format::RegionCursor& CallSites::cursor(CallSiteTable which) const {
    return header_->cursors[static_cast<uint32_t>(which)];
}

void CallSites::say_python(const char* text) {
    std::atomic_ref(header_->python).store(texts_.intern(text), std::memory_order_relaxed);
}

void CallSites::say_native(const char* text) {
    std::atomic_ref(header_->native).store(texts_.intern(text), std::memory_order_relaxed);
}

bool CallSites::add_module(format::StackModule module, const char* path) {
    const std::atomic_ref<uint64_t> rows(cursor(CallSiteTable::kModules).head);
    const uint64_t row = rows.load(std::memory_order_relaxed);
    if (row >= format::kCallModuleRows) {
        return false;
    }
    module.path = texts_.intern(path);
    table<format::StackModule>(CallSiteTable::kModules)[row] = module;
    rows.store(row + 1, std::memory_order_release);
    return true;
}

void CallSites::gather_python(Gathered& stack, Frame* frames) {
    const CallPython* const python = python_.load(std::memory_order_acquire);
    void* const state = python != nullptr && python->is_initialized() != 0 ? python->this_thread_state() : nullptr;
    if (state == nullptr) {
        return;
    }
    const python::Runtime& runtime = python->runtime;
    const python::Walk walked =
        python::walk(DirectMemory{}, runtime, reinterpret_cast<uint64_t>(state), frames, kMaxCallFrames);
    stack.python_count = walked.count;
    stack.flags |= walked.cut == python::Cut::kNone ? 0 : format::kPythonCut;
    for (uint32_t i = 0; i < walked.count; ++i) {
        stack.hash = mix_hash(stack.hash, key_of(runtime.layout, frames[i]));
    }
}

void CallSites::gather_native(Gathered& stack, uint64_t* addresses, AddressRange thread_stack) {
    const CallNative* const native = native_.load(std::memory_order_acquire);
    if (native == nullptr) {
        return;
    }
    NativeWalk walked{};
    // Each address that has no rule yet gets one: once for all.
    for (uint32_t learned = 0; learned <= kMaxCallFrames + 32; ++learned) {
        walked = walk_native(native->rules, native->generation.load(std::memory_order_relaxed), native->own,
                             thread_stack, addresses, kMaxCallFrames);
        if (walked.unknown == 0 || !native->learn(walked.unknown)) [[likely]] {
            break;
        }
    }
    stack.native_count = walked.count;
    stack.flags |= walked.cut ? format::kNativeCut : 0;
    for (uint32_t i = 0; i < walked.count; ++i) {
        stack.hash = mix_hash(stack.hash, addresses[i]);
    }
}

uint32_t CallSites::capture(AddressRange thread_stack) {
    // Not initialised: they are filled as far as there are frames.
    alignas(Frame) unsigned char room[kMaxCallFrames * sizeof(Frame)];
    uint64_t addresses[kMaxCallFrames];
    auto* const frames = reinterpret_cast<Frame*>(room);
    Gathered stack{.hash = kSeed, .native = addresses, .python = frames};
    gather_python(stack, frames);
    gather_native(stack, addresses, thread_stack);
    stack.hash = not_zero(stack.hash);
    return stack.python_count + stack.native_count == 0 ? 0 : intern(stack);
}

uint32_t CallSites::intern(const Gathered& stack) {
    uint64_t row = stacks_.find(stack.hash, stack.hash);
    if (row == Stacks::kNone) [[unlikely]] {
        bool is_new = false;
        row = stacks_.claim(stack.hash, stack.hash, is_new);
        if (row == Stacks::kNone) {
            return lose();
        }
        if (is_new) {
            write(stack, stacks_[row]);
        }
    }
    std::atomic_ref(stacks_[row].uses).fetch_add(1, std::memory_order_relaxed);
    return static_cast<uint32_t>(row + 1);
}

uint32_t CallSites::lose() {
    std::atomic_ref(header_->dropped).fetch_add(1, std::memory_order_relaxed);
    std::atomic_ref(*lost_).fetch_add(1, std::memory_order_relaxed);
    return 0;
}

// The row is ours.
[[gnu::cold, gnu::noinline]] void CallSites::write(const Gathered& stack, CallStackRecord& record) {
    const uint64_t count = stack.native_count + stack.python_count;
    const uint64_t first =
        std::atomic_ref(cursor(CallSiteTable::kFrames).head).fetch_add(count, std::memory_order_relaxed);
    const uint64_t room = first < format::kCallFrameRows ? format::kCallFrameRows - first : 0;
    const auto natives = static_cast<uint16_t>(stack.native_count < room ? stack.native_count : room);
    const auto pythons =
        static_cast<uint16_t>(stack.python_count < room - natives ? stack.python_count : room - natives);
    for (uint32_t i = 0; i < natives; ++i) {
        const uint64_t address = stack.native[i];
        frames_[first + i] = place_of(not_zero(mix_hash(kNativeSeed, address)), [&](CallPlace& place) {
            place.address = address;
            std::atomic_ref(place.published).store(1, std::memory_order_release);
        });
    }
    for (uint32_t i = 0; i < pythons; ++i) {
        const Frame& frame = stack.python[i];
        const uint32_t place = place_of(key_of(python_.load(std::memory_order_relaxed)->runtime.layout, frame),
                                        [&](CallPlace& made) { describe(frame, made); });
        frames_[first + natives + i] = place | (frame.is_entry ? format::kEntryFrame : 0);
    }
    record.flags = static_cast<uint8_t>(stack.flags | (natives < stack.native_count ? format::kNativeCut : 0) |
                                        (pythons < stack.python_count ? format::kPythonCut : 0));
    record.first_frame = static_cast<uint32_t>(first);
    record.native_count = natives;
    record.python_count = pythons;
    std::atomic_ref(record.published).store(1, std::memory_order_release);
}

template <typename Fill>
uint32_t CallSites::place_of(uint64_t key, const Fill& fill) {
    bool is_new = false;
    const uint64_t row = places_.claim(key, key, is_new);
    if (row == Places::kNone) {
        return 0;
    }
    if (is_new) {
        fill(places_[row]);
    }
    return static_cast<uint32_t>(row + 1);
}

void CallSites::describe(const Frame& frame, CallPlace& place) {
    char file[1024];
    char function[kMaxStringBytes + 1];
    Memory memory;
    memory.read_some = read_own;
    python::Place found;
    if (python::describe(memory, python_.load(std::memory_order_relaxed)->runtime, frame.code, frame.offset, file,
                         sizeof(file), function, sizeof(function), found)) {
        place.file = texts_.intern(end_of(file, found.file_bytes));
        place.function = texts_.intern(function);
        place.line = found.line;
    }
    std::atomic_ref(place.published).store(1, std::memory_order_release);
}

}  // namespace titan::tracer
