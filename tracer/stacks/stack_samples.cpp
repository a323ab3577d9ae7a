#include "stack_samples.h"

#include <string.h>

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "base/hash.h"
#include "base/map_private.h"
#include "capture_stacks.h"

namespace titan::tracer {
namespace {

using format::StackTable;

constexpr size_t kTextsOfStack = 16 << 10;  // more than the frames of a stack have ever needed
constexpr size_t kModulesOfStack = 48;

uint64_t hash_of(const void* bytes, size_t size, uint64_t before) {
    return mix_hash(before, fnv1a64(static_cast<const char*>(bytes), size));
}

}  // namespace

bool StackSamples::start(char* region) {
    if (region != nullptr && work_ == nullptr) {  // it outlives a fork
        work_ = map_private<Work>();
    }
    region_ = work_ != nullptr ? region : nullptr;
    current_ = format::kSampleImages - 1;
    if (region_ != nullptr) {
        turn();
    }
    return region_ != nullptr;
}

// Goes on in the other image. What it held is the oldest.
void StackSamples::turn() {
    current_ = (current_ + 1) % format::kSampleImages;
    char* const begin = region_ + current_ * format::sample_image_bytes();
    // Whoever reads the ring meanwhile finds no image, and not half of one.
    std::atomic_ref(reinterpret_cast<format::StacksHeader*>(begin)->magic).store(0, std::memory_order_release);
    memset(begin, 0, format::sample_image_bytes());
    memset(static_cast<void*>(work_), 0, sizeof(Work));
    image_.emplace(begin, work_->known_texts, format::kSampleTableSizes);
    image_->header().began_realtime_ns = realtime_now_ns();
}

bool StackSamples::has_room(const format::StackThread& thread) const {
    return image_->room(StackTable::kThreads) > 0 && image_->room(StackTable::kSamples) > 0 &&
           image_->room(StackTable::kFrames) >= thread.frame_count &&
           image_->room(StackTable::kPython) >= thread.python_count &&
           image_->room(StackTable::kTexts) >= kTextsOfStack && image_->room(StackTable::kModules) >= kModulesOfStack;
}

void StackSamples::add(std::span<const char> sampled, uint64_t ticks, int64_t step) {
    if (region_ == nullptr || sampled.empty()) {
        return;
    }
    const auto& header = *reinterpret_cast<const format::StacksHeader*>(sampled.data());
    for (const auto& thread : rows_of<format::StackThread>(sampled, StackTable::kThreads)) {
        if (!has_room(thread)) {
            turn();
        }
        if (image_->header().python == 0) {
            image_->header().python = image_->text(rows_of<char>(sampled, StackTable::kTexts).data() + header.python);
        }
        image_->add_sample({ticks, step, row_of(sampled, thread), 0});
    }
}

// The stack as it would be kept, behind the rows in use: it becomes a row by keep().
format::StackThread StackSamples::lay_out(std::span<const char> sampled, const format::StackThread& thread) {
    const char* const texts = rows_of<char>(sampled, StackTable::kTexts).data();
    format::StackThread row{};
    row.tid = thread.tid;
    row.name = image_->text(texts + thread.name);
    row.outcome = thread.outcome;
    row.state = thread.state;
    row.system_call = thread.system_call;
    row.first_frame = image_->count(StackTable::kFrames);
    row.frame_count = thread.frame_count;
    row.first_python = image_->count(StackTable::kPython);
    row.python_count = thread.python_count;
    row.python_cut = thread.python_cut;
    const auto frames =
        rows_of<format::StackFrame>(sampled, StackTable::kFrames).subspan(thread.first_frame, thread.frame_count);
    std::copy(frames.begin(), frames.end(), image_->rows<format::StackFrame>(StackTable::kFrames) + row.first_frame);
    auto* into = image_->rows<format::StackPython>(StackTable::kPython) + row.first_python;
    for (format::StackPython frame :
         rows_of<format::StackPython>(sampled, StackTable::kPython).subspan(thread.first_python, thread.python_count)) {
        frame.file = image_->text(texts + frame.file);
        frame.function = image_->text(texts + frame.function);
        *into++ = frame;
    }
    return row;
}

uint32_t StackSamples::row_of(std::span<const char> sampled, const format::StackThread& thread) {
    const format::StackThread row = lay_out(sampled, thread);
    const auto* const threads = image_->rows<format::StackThread>(StackTable::kThreads);
    const auto frames_of = [&](const format::StackThread& of) {
        return image_->rows<format::StackFrame>(StackTable::kFrames) + of.first_frame;
    };
    const auto python_of = [&](const format::StackThread& of) {
        return image_->rows<format::StackPython>(StackTable::kPython) + of.first_python;
    };
    const size_t frame_bytes = row.frame_count * sizeof(format::StackFrame);
    const size_t python_bytes = row.python_count * sizeof(format::StackPython);
    const uint64_t hash =
        hash_of(python_of(row), python_bytes, hash_of(frames_of(row), frame_bytes, static_cast<uint32_t>(row.tid)));
    for (uint64_t i = hash;; ++i) {
        uint32_t& place = work_->rows[i % kPlaces];
        if (place == 0) {
            place = image_->count(StackTable::kThreads) + 1;
            keep(sampled, row);
            return place - 1;
        }
        const format::StackThread& known = threads[place - 1];
        if (known.tid == row.tid && known.frame_count == row.frame_count && known.python_count == row.python_count &&
            memcmp(frames_of(known), frames_of(row), frame_bytes) == 0 &&
            memcmp(python_of(known), python_of(row), python_bytes) == 0) {
            return place - 1;
        }
    }
}

void StackSamples::keep(std::span<const char> sampled, const format::StackThread& thread) {
    format::StackThread& row = *image_->add_thread();
    row = thread;
    image_->add_frames(row, thread.frame_count);
    image_->take_python(thread.python_count);
    for (uint32_t i = 0; i < thread.frame_count; ++i) {
        const auto& frame = image_->rows<format::StackFrame>(StackTable::kFrames)[row.first_frame + i];
        add_module_of(sampled, frame.address & ~format::kInterrupted);
    }
}

// Only modules that frames lie in, so that the room lasts. They may come and go while the process runs.
void StackSamples::add_module_of(std::span<const char> sampled, uint64_t address) {
    const auto holds = [address](const format::StackModule& module) {
        return module.begin <= address && address < module.end;
    };
    const auto modules = rows_of<format::StackModule>(sampled, StackTable::kModules);
    const auto found = std::find_if(modules.begin(), modules.end(), holds);
    const std::span known(image_->rows<format::StackModule>(StackTable::kModules), image_->count(StackTable::kModules));
    if (found == modules.end() || std::any_of(known.begin(), known.end(), [&](const format::StackModule& module) {
            return module.begin == found->begin && module.end == found->end &&
                   memcmp(module.build_id, found->build_id, sizeof(module.build_id)) == 0;
        })) {
        return;
    }
    image_->add_module(*found, rows_of<char>(sampled, StackTable::kTexts).data() + found->path);
}

void StackSamples::name_functions(const format::RingHeader& ring, char* copy) {
    for (uint32_t i = 0; i < format::kSampleImages && region_ != nullptr; ++i) {
        char* const begin = copy + (region_ - reinterpret_cast<const char*>(&ring)) + i * format::sample_image_bytes();
        if (reinterpret_cast<const format::StacksHeader*>(begin)->magic == format::kStacksMagic) {
            memset(work_->known_names, 0, sizeof(work_->known_names));
            StackImage image = StackImage::continued(begin, work_->known_names, format::kSampleTableSizes);
            name_exported(image);
        }
    }
}

}  // namespace titan::tracer
