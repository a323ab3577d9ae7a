// Describes a place in a code object in words: file, qualified name, line.
//
// Async-signal-safe, bounded in time and in what it reads; the caller gives the room for text. The code object may be
// gone by now (a walk made long ago, another thread running on): then the answer says so. Control characters are the
// reader's business.
#pragma once

#include "runtime.h"

namespace titan::tracer::python {

struct Place {
    int32_t line = 0;  // 0: the code has none here, or its table cannot be read
    int32_t first_line = 0;
    uint32_t file_bytes = 0;  // not counting the NUL
    uint32_t name_bytes = 0;
    bool file_cut = false;  // longer than its room; cut between characters, at its end
    bool name_cut = false;
};

// UTF-8 goes to `file` and `name`, NUL-terminated; characters that UTF-8 cannot express (lone surrogates) become
// U+FFFD. False: no code object lies there.
bool describe(const Memory& memory, const Runtime& runtime, uint64_t code, int32_t offset, char* file,
              size_t file_room_bytes, char* name, size_t name_room_bytes, Place& place);

// Its parts. The line, from a code object's table; 0: none belongs to this instruction, or the table is damaged.
int32_t line_of(const Memory& memory, LineTable kind, uint64_t table, uint64_t table_bytes, int32_t first_line,
                int32_t offset);

// A Python str as UTF-8. Bytes written without the NUL behind them; 0 with an empty text: no str that we understand
// lies there.
uint32_t copy_text_object(const Memory& memory, const Runtime& runtime, uint64_t object, char* out, size_t room_bytes,
                          bool& cut);

}  // namespace titan::tracer::python
