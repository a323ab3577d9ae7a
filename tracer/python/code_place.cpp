#include "code_place.h"

#include "frames.h"
#include "line_table.h"
#include "object_text.h"

namespace titan::tracer::python {
namespace {

bool is_code(const Memory& memory, const Runtime& runtime, uint64_t code) {
    uint64_t type;
    return code != 0 && code % 8 == 0 && memory.get(code + runtime.layout.object_type, type) &&
           type == runtime.code_type;
}

int32_t current_line(const Memory& memory, const Runtime& runtime, uint64_t code, int32_t first_line, int32_t offset) {
    const Layout& layout = runtime.layout;
    uint64_t table, type;
    int64_t table_bytes;
    if (offset == kUnknownOffset || !memory.get(code + layout.code_lines, table) || table % 8 != 0 ||
        !memory.get(table + layout.object_type, type) || type != runtime.bytes_type ||
        !memory.get(table + layout.bytes_size, table_bytes) || table_bytes < 0) {
        return 0;
    }
    return line_of(memory, layout.lines, table + layout.bytes_data, static_cast<uint64_t>(table_bytes), first_line,
                   offset);
}

}  // namespace

bool describe(const Memory& memory, const Runtime& runtime, uint64_t code, int32_t offset, char* file,
              size_t file_room_bytes, char* name, size_t name_room_bytes, Place& place) {
    place = Place{};
    const Layout& layout = runtime.layout;
    uint64_t file_object, name_object;
    if (!is_code(memory, runtime, code) || !memory.get(code + layout.code_first_line, place.first_line) ||
        !memory.get(code + layout.code_file, file_object) ||
        !memory.get(code + (layout.code_qualname != 0 ? layout.code_qualname : layout.code_name), name_object)) {
        return false;
    }
    place.line = current_line(memory, runtime, code, place.first_line, offset);
    place.file_bytes = copy_text_object(memory, runtime, file_object, file, file_room_bytes, place.file_cut);
    place.name_bytes = copy_text_object(memory, runtime, name_object, name, name_room_bytes, place.name_cut);
    return is_code(memory, runtime, code);  // still the same
}

}  // namespace titan::tracer::python
