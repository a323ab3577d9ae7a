#include "fake_memory.h"

#include <cstring>

using namespace titan;
using namespace titan::tracer::python;

Memory FakeMemory::reader() const {
    Memory memory;
    memory.read_some = read_some;
    memory.context = const_cast<FakeMemory*>(this);
    return memory;
}

size_t FakeMemory::read_some(const Memory& memory, uint64_t address, void* into, size_t bytes) {
    const auto& self = *static_cast<const FakeMemory*>(memory.context);
    self.reads++;
    const uint64_t offset = address - kBase;
    if (offset >= self.bytes_.size()) {
        return 0;
    }
    const size_t there = std::min<size_t>(bytes, self.bytes_.size() - offset);
    std::memcpy(into, self.bytes_.data() + offset, there);
    return there;
}

uint64_t FakeMemory::take(size_t bytes) {
    const uint64_t address = kBase + bytes_.size();
    bytes_.resize(bytes_.size() + (bytes + 15) / 16 * 16);
    return address;
}

void FakeMemory::put(uint64_t address, const void* from, size_t bytes) {
    std::memcpy(bytes_.data() + (address - kBase), from, bytes);
}

namespace {

// As a runtime from 3.13 on tells it. The offsets are a test's choice: 3.12's, with what must differ.
void choose_layout(uint32_t minor, bool free_threaded, Layout& layout) {
    Layout chosen;
    layout_of_version(12, chosen);
    chosen.thread_frame = 72;
    chosen.frame_owner = 76;
    chosen.frame_copy_index = free_threaded ? 72 : 0;
    chosen.code_copies = free_threaded ? 200 : 0;
    chosen.code_bytecode = 208;
    chosen.text_compact_bytes += 8;
    const struct {
        uint16_t by_version[3];
        uint32_t offset;
    } rows[] = {
#define TITAN_PYTHON_WORD(field, ...) {{__VA_ARGS__}, chosen.field},
#include "debug_offsets.def"
    };
    uint64_t words[kDebugWords] = {};
    for (const auto& row : rows) {
        words[row.by_version[minor - 13]] = row.offset;
    }
    layout_of_debug_offsets(minor, words, free_threaded, layout);
}

}  // namespace

FakePython::FakePython(uint32_t minor, bool free_threaded) {
    Layout& layout = runtime.layout;
    if (!layout_of_version(minor, layout)) {
        choose_layout(minor, free_threaded, layout);
    }
    runtime.free_threaded = free_threaded;
    runtime.code_type = type("code");
    runtime.text_type = type("str");
    runtime.bytes_type = type("bytes");
    runtime.address = memory.take(1024);
    interpreter = memory.take(512);
    memory.set(runtime.address + layout.runtime_interpreters, interpreter);
    memory.set(interpreter + layout.interpreter_id, int64_t{7});
}

uint64_t FakePython::type(const char* name) {
    const uint64_t object = memory.take(64), text = memory.take(16);
    memory.put(text, name, std::strlen(name) + 1);
    memory.set(object + runtime.layout.type_name, text);
    return object;
}

uint64_t FakePython::text(std::string_view ascii) {
    const Layout& layout = runtime.layout;
    const uint64_t object = memory.take(layout.text_ascii_bytes + ascii.size() + 1);
    memory.set(object + layout.object_type, runtime.text_type);
    memory.set(object + layout.text_length, static_cast<int64_t>(ascii.size()));
    memory.set(object + layout.text_state, 0b11001u << layout.text_kind_shift);
    memory.put(object + layout.text_ascii_bytes, ascii.data(), ascii.size());
    return object;
}

uint64_t FakePython::wide_text(const std::vector<uint32_t>& characters, uint32_t width) {
    const Layout& layout = runtime.layout;
    const uint64_t object = memory.take(layout.text_compact_bytes + (characters.size() + 1) * width);
    memory.set(object + layout.object_type, runtime.text_type);
    memory.set(object + layout.text_length, static_cast<int64_t>(characters.size()));
    memory.set(object + layout.text_state, (0b01000u | width) << layout.text_kind_shift);
    for (size_t i = 0; i < characters.size(); ++i) {
        memory.put(object + layout.text_compact_bytes + i * width, &characters[i], width);
    }
    return object;
}

uint64_t FakePython::code(std::string_view file, std::string_view name, int32_t first_line, std::string_view table) {
    const Layout& layout = runtime.layout;
    const uint64_t bytes = memory.take(layout.bytes_data + table.size());
    memory.set(bytes + layout.object_type, runtime.bytes_type);
    memory.set(bytes + layout.bytes_size, static_cast<int64_t>(table.size()));
    memory.put(bytes + layout.bytes_data, table.data(), table.size());
    const uint64_t object = memory.take(512);
    memory.set(object + layout.object_type, runtime.code_type);
    memory.set(object + layout.object_type + 8, int64_t{100});
    memory.set(object + layout.code_file, text(file));
    memory.set(object + (layout.code_qualname != 0 ? layout.code_qualname : layout.code_name), text(name));
    memory.set(object + layout.code_lines, bytes);
    memory.set(object + layout.code_first_line, first_line);
    if (layout.code_first_traceable != 0) {
        memory.set(object + layout.code_first_traceable, int32_t{2});
    }
    return object;
}

uint64_t FakePython::add_thread(uint64_t native_id) {
    const Layout& layout = runtime.layout;
    const uint64_t thread = memory.take(512);
    memory.set(thread + layout.thread_interpreter, interpreter);
    memory.set(thread + layout.thread_id, native_id + 1000);
    if (layout.has_native_id) {
        memory.set(thread + layout.thread_native_id, native_id);
    }
    if (layout.thread_frame_nested) {
        memory.set(thread + layout.thread_frame, memory.take(32));
    }
    const uint64_t link =
        threads.empty() ? interpreter + layout.interpreter_threads : threads.back() + layout.thread_next;
    memory.set(link, thread);
    threads.push_back(thread);
    last_frame_.push_back(0);
    return thread;
}

uint64_t FakePython::add_frame(uint64_t thread, uint64_t code, int32_t offset, uint8_t owner, bool entry) {
    const Layout& layout = runtime.layout;
    const uint64_t frame = memory.take(128);
    memory.set(frame + layout.frame_code, code);
    if (layout.frames >= FrameStyle::kEntryFlag) {
        memory.set(frame + layout.frame_owner, owner);
        memory.set(frame + layout.frame_instruction, code + layout.code_bytecode + static_cast<uint64_t>(offset));
    } else {
        memory.set(frame + layout.frame_instruction, layout.frames == FrameStyle::kUnitIndex ? offset / 2 : offset);
    }
    if (layout.frames == FrameStyle::kEntryFlag) {
        memory.set(frame + layout.frame_is_entry, static_cast<uint8_t>(entry));
    }
    for (size_t i = 0; i < threads.size(); ++i) {
        if (threads[i] != thread) {
            continue;
        }
        uint64_t link = thread + layout.thread_frame;
        if (layout.thread_frame_nested) {
            uint64_t cframe;
            memory.reader().get(link, cframe);
            link = cframe + layout.cframe_frame;
        }
        memory.set(last_frame_[i] != 0 ? last_frame_[i] + layout.frame_previous : link, frame);
        last_frame_[i] = frame;
    }
    frames.push_back(frame);
    return frame;
}

void FakePython::set_previous(uint64_t frame, uint64_t previous) {
    memory.set(frame + runtime.layout.frame_previous, previous);
}
