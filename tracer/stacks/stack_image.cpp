#include "stack_image.h"

#include <string.h>

#include <atomic>

#include "base/hash.h"
#include "formats/layout/dump_layout.h"

namespace titan::tracer {
namespace {

using format::StackTable;

constexpr format::StackTableSize kSizes[] = {
    {StackTable::kThreads, sizeof(format::StackThread), StackImage::kMaxThreads},
    {StackTable::kFrames, sizeof(format::StackFrame), StackImage::kMaxFrames},
    {StackTable::kModules, sizeof(format::StackModule), StackImage::kMaxModules},
    {StackTable::kTexts, 1, StackImage::kTextBytes},
    {StackTable::kPython, sizeof(format::StackPython), StackImage::kMaxPython},
    {StackTable::kNames, sizeof(format::StackName), StackImage::kMaxNames},
};

}  // namespace

std::span<const format::StackTableSize> StackImage::sizes() { return kSizes; }

size_t StackImage::bytes() {
    size_t sum = sizeof(format::StacksHeader);
    for (const format::StackTableSize& size : kSizes) {
        sum += size_t{size.stride_bytes} * size.count;
    }
    return sum;
}

StackImage::StackImage(char* memory, uint32_t* known_texts, std::span<const format::StackTableSize> sizes)
    : StackImage(memory, known_texts, nullptr) {
    *header_ = format::StacksHeader{};
    header_->major = format::kStacksMajor;
    header_->minor = format::kStacksMinor;
    header_->header_bytes = sizeof(format::StacksHeader);
    uint64_t offset_bytes = sizeof(format::StacksHeader);
    for (const format::StackTableSize& size : sizes) {
        table(size.table) = {offset_bytes, size.stride_bytes, 0};
        offset_bytes += uint64_t{size.stride_bytes} * size.count;
    }
    table(StackTable::kTexts).count = 1;  // offset 0 is the empty text
    take_sizes(sizes);
    std::atomic_ref(header_->magic).store(format::kStacksMagic, std::memory_order_release);
}

StackImage StackImage::continued(char* memory, uint32_t* known_texts, std::span<const format::StackTableSize> sizes) {
    StackImage image(memory, known_texts, nullptr);
    image.take_sizes(sizes);
    return image;
}

void StackImage::take_sizes(std::span<const format::StackTableSize> sizes) {
    for (const format::StackTableSize& size : sizes) {
        capacity_[static_cast<uint32_t>(size.table)] = size.count;
    }
}

format::StackTableDescriptor& StackImage::table(StackTable which) {
    return header_->tables[static_cast<uint32_t>(which)];
}

format::StackThread* StackImage::add_thread() {
    uint32_t& count = table(StackTable::kThreads).count;
    return room(StackTable::kThreads) == 0 ? nullptr : &rows<format::StackThread>(StackTable::kThreads)[count++];
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
    capacity = room(StackTable::kFrames);
    return &rows<format::StackFrame>(StackTable::kFrames)[count].address;
}

void StackImage::add_frames(format::StackThread& thread, size_t count) {
    uint32_t& used = table(StackTable::kFrames).count;
    thread.first_frame = used;
    thread.frame_count = static_cast<uint32_t>(count);
    used += thread.frame_count;
}

void StackImage::add_module(const Module& module) { add_module(row_of(module), module.path); }

void StackImage::add_module(const format::StackModule& module, const char* path) {
    uint32_t& count = table(StackTable::kModules).count;
    if (room(StackTable::kModules) == 0) {
        return;
    }
    format::StackModule& row = rows<format::StackModule>(StackTable::kModules)[count++];
    row = module;
    row.path = text(path);
}

bool StackImage::add_python(const format::StackPython& frame) {
    uint32_t& count = table(StackTable::kPython).count;
    if (room(StackTable::kPython) == 0) {
        return false;
    }
    rows<format::StackPython>(StackTable::kPython)[count++] = frame;
    return true;
}

void StackImage::add_sample(const format::StackSample& sample) {
    uint32_t& count = table(StackTable::kSamples).count;
    if (room(StackTable::kSamples) != 0) {
        rows<format::StackSample>(StackTable::kSamples)[count] = sample;
        std::atomic_ref(count).store(count + 1, std::memory_order_release);  // the ring may be read at any time
    }
}

std::span<format::StackThread> StackImage::threads() {
    return {rows<format::StackThread>(StackTable::kThreads), table(StackTable::kThreads).count};
}

std::span<const format::StackFrame> StackImage::frames() {
    return {rows<format::StackFrame>(StackTable::kFrames), table(StackTable::kFrames).count};
}

void StackImage::add_name(uint64_t address, const char* name) {
    uint32_t& count = table(StackTable::kNames).count;
    if (room(StackTable::kNames) != 0) {
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
    if (size > room(StackTable::kTexts)) {
        return 0;
    }
    const uint32_t at = used;
    memcpy(texts + at, string, size);
    used += static_cast<uint32_t>(size);
    *place = at;
    return at;
}

}  // namespace titan::tracer
