#include "stack_image.h"

#include <string.h>

#include "base/hash.h"
#include "formats/layout/dump_layout.h"

namespace titan::tracer {
namespace {

using format::StackTable;

struct TableRoom {
    StackTable table;
    uint32_t stride_bytes;
    size_t rows;
};
constexpr TableRoom kRooms[] = {
    {StackTable::kThreads, sizeof(format::StackThread), StackImage::kMaxThreads},
    {StackTable::kFrames, sizeof(format::StackFrame), StackImage::kMaxFrames},
    {StackTable::kModules, sizeof(format::StackModule), StackImage::kMaxModules},
    {StackTable::kTexts, 1, StackImage::kTextBytes},
    {StackTable::kPython, sizeof(format::StackPython), StackImage::kMaxPython},
    {StackTable::kNames, sizeof(format::StackName), StackImage::kMaxNames},
};

}  // namespace

size_t StackImage::bytes() {
    size_t sum = sizeof(format::StacksHeader);
    for (const TableRoom& room : kRooms) {
        sum += room.stride_bytes * room.rows;
    }
    return sum;
}

StackImage::StackImage(char* memory, uint32_t* known_texts)
    : memory_(memory), known_texts_(known_texts), header_(reinterpret_cast<format::StacksHeader*>(memory)) {
    *header_ = format::StacksHeader{};
    header_->magic = format::kStacksMagic;
    header_->major = format::kStacksMajor;
    header_->minor = format::kStacksMinor;
    header_->header_bytes = sizeof(format::StacksHeader);
    uint64_t offset_bytes = sizeof(format::StacksHeader);
    for (const TableRoom& room : kRooms) {
        table(room.table) = {offset_bytes, room.stride_bytes, 0};
        offset_bytes += room.stride_bytes * room.rows;
    }
    table(StackTable::kTexts).count = 1;  // offset 0 is the empty text
}

format::StackTableDescriptor& StackImage::table(StackTable which) {
    return header_->tables[static_cast<uint32_t>(which)];
}

template <typename T>
T* StackImage::rows(StackTable which) {
    return reinterpret_cast<T*>(memory_ + table(which).offset_bytes);
}

format::StackThread* StackImage::add_thread() {
    uint32_t& count = table(StackTable::kThreads).count;
    return count == kMaxThreads ? nullptr : &rows<format::StackThread>(StackTable::kThreads)[count++];
}

void StackImage::describe(format::StackThread& thread, pid_t tid, const ProcThread& proc) {
    thread.tid = tid;
    thread.name = text(proc.name);
    thread.state = proc.state;
    thread.wait_channel = text(proc.wait_channel);
    thread.system_call = proc.system_call;
    memcpy(thread.system_call_arguments, proc.arguments, sizeof(thread.system_call_arguments));
    thread.cpu_ns = proc.cpu_ns;
}

uint64_t* StackImage::frame_room(size_t& capacity) {
    const uint32_t count = table(StackTable::kFrames).count;
    capacity = kMaxFrames - count;
    return &rows<format::StackFrame>(StackTable::kFrames)[count].address;
}

void StackImage::add_frames(format::StackThread& thread, size_t count) {
    uint32_t& used = table(StackTable::kFrames).count;
    thread.first_frame = used;
    thread.frame_count = static_cast<uint32_t>(count);
    used += thread.frame_count;
}

void StackImage::add_module(const Module& module) {
    uint32_t& count = table(StackTable::kModules).count;
    if (count == kMaxModules) {
        return;
    }
    format::StackModule& row = rows<format::StackModule>(StackTable::kModules)[count++];
    row = row_of(module);
    row.path = text(module.path);
}

bool StackImage::add_python(const format::StackPython& frame) {
    uint32_t& count = table(StackTable::kPython).count;
    if (count == kMaxPython) {
        return false;
    }
    rows<format::StackPython>(StackTable::kPython)[count++] = frame;
    return true;
}

std::span<format::StackThread> StackImage::threads() {
    return {rows<format::StackThread>(StackTable::kThreads), table(StackTable::kThreads).count};
}

std::span<const format::StackFrame> StackImage::frames() {
    return {rows<format::StackFrame>(StackTable::kFrames), table(StackTable::kFrames).count};
}

void StackImage::add_name(uint64_t address, const char* name) {
    uint32_t& count = table(StackTable::kNames).count;
    if (count != kMaxNames) {
        rows<format::StackName>(StackTable::kNames)[count++] = {address, text(name), 0};
    }
}

uint32_t StackImage::text(const char* string) {
    constexpr size_t kTries = 16;
    uint32_t& used = table(StackTable::kTexts).count;
    char* const texts = rows<char>(StackTable::kTexts);
    const size_t size = strlen(string) + 1;
    if (size == 1) {
        return 0;
    }
    const uint64_t hash = fnv1a64(string, size);
    uint32_t* place = nullptr;
    for (size_t i = 0; i < kTries; ++i) {
        place = &known_texts_[(hash + i) % kKnownTexts];
        if (*place == 0 || strcmp(texts + *place, string) == 0) {
            break;
        }
    }
    if (*place != 0 && strcmp(texts + *place, string) == 0) {
        return *place;
    }
    if (size > kTextBytes - used) {
        return 0;
    }
    const uint32_t at = used;
    memcpy(texts + at, string, size);
    used += static_cast<uint32_t>(size);
    *place = at;
    return at;
}

}  // namespace titan::tracer
