/* What one CPython's own headers say of the offsets in tracer/python/layouts.def: compiled by test_layouts.py against
   the headers of each CPython that has them. Prints "field offset" lines, and "words.field word" for what
   _Py_DebugOffsets tells. */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "internal/pycore_interp.h"
#include "internal/pycore_runtime.h"
#if PY_VERSION_HEX >= 0x030E0000
#include "internal/pycore_debug_offsets.h"
#include "internal/pycore_interpframe.h"
#elif PY_VERSION_HEX >= 0x030B0000
#include "internal/pycore_frame.h"
#else
#include <frameobject.h>
#endif

#define SHOW(field, value) printf("%s %zu\n", #field, (size_t)(value))
#define WORD(field, path) printf("%s %zu\n", #field, offsetof(struct _Py_DebugOffsets, path) / 8)

/* A state with nothing but a kind in it, to see where that lies. */
static size_t kind_shift(void) {
    PyASCIIObject text;
    memset(&text, 0, sizeof text);
    text.state.kind = 1;
    uint32_t state;
    memcpy(&state, &text.state, sizeof state);
    size_t shift = 0;
    while (state > 1) {
        state >>= 1;
        shift++;
    }
    return shift;
}

static void show_words(void) {
#if PY_VERSION_HEX >= 0x030D0000
    WORD(words.runtime_interpreters, runtime_state.interpreters_head);
    WORD(words.interpreter_next, interpreter_state.next);
    WORD(words.interpreter_id, interpreter_state.id);
    WORD(words.interpreter_threads, interpreter_state.threads_head);
    WORD(words.interpreter_gil, interpreter_state.ceval_gil);
    WORD(words.interpreter_own_gil, interpreter_state.gil_runtime_state);
    WORD(words.gil_locked, interpreter_state.gil_runtime_state_locked);
    WORD(words.gil_holder, interpreter_state.gil_runtime_state_holder);
    WORD(words.thread_next, thread_state.next);
    WORD(words.thread_interpreter, thread_state.interp);
    WORD(words.thread_frame, thread_state.current_frame);
    WORD(words.thread_id, thread_state.thread_id);
    WORD(words.thread_native_id, thread_state.native_thread_id);
    WORD(words.frame_previous, interpreter_frame.previous);
    WORD(words.frame_code, interpreter_frame.executable);
    WORD(words.frame_instruction, interpreter_frame.instr_ptr);
    WORD(words.frame_owner, interpreter_frame.owner);
    WORD(words.code_file, code_object.filename);
    WORD(words.code_name, code_object.name);
    WORD(words.code_qualname, code_object.qualname);
    WORD(words.code_lines, code_object.linetable);
    WORD(words.code_first_line, code_object.firstlineno);
    WORD(words.code_bytecode, code_object.co_code_adaptive);
    WORD(words.object_type, pyobject.ob_type);
    WORD(words.type_name, type_object.tp_name);
    WORD(words.bytes_size, bytes_object.ob_size);
    WORD(words.bytes_data, bytes_object.ob_sval);
    WORD(words.text_state, unicode_object.state);
    WORD(words.text_length, unicode_object.length);
    WORD(words.text_ascii_bytes, unicode_object.asciiobject_size);
    WORD(words.text_compact_bytes, unicode_object.size); /* which is 8 bytes more */
#if PY_VERSION_HEX >= 0x030E0000
    WORD(words.frame_copy_index, interpreter_frame.tlbc_index);
    WORD(words.code_copies, code_object.co_tlbc);
#endif
#endif
}

int main(void) {
    printf("version %d.%d\n", PY_MAJOR_VERSION, PY_MINOR_VERSION);
    SHOW(runtime_interpreters, offsetof(_PyRuntimeState, interpreters.head));
    SHOW(interpreter_next, offsetof(PyInterpreterState, next));
    SHOW(interpreter_id, offsetof(PyInterpreterState, id));
#if PY_VERSION_HEX >= 0x030B0000
    SHOW(interpreter_threads, offsetof(PyInterpreterState, threads.head));
#else
    SHOW(interpreter_threads, offsetof(PyInterpreterState, tstate_head));
#endif
#if PY_VERSION_HEX < 0x030C0000
    SHOW(runtime_gil_holder, offsetof(_PyRuntimeState, gilstate.tstate_current));
#else
    SHOW(interpreter_gil, offsetof(PyInterpreterState, ceval.gil));
    SHOW(gil_holder, offsetof(struct _gil_runtime_state, last_holder));
    SHOW(gil_locked, offsetof(struct _gil_runtime_state, locked));
#endif
    SHOW(thread_next, offsetof(PyThreadState, next));
    SHOW(thread_interpreter, offsetof(PyThreadState, interp));
    SHOW(thread_id, offsetof(PyThreadState, thread_id));
#if PY_VERSION_HEX >= 0x030D0000
    SHOW(thread_frame, offsetof(PyThreadState, current_frame));
#elif PY_VERSION_HEX >= 0x030B0000
    SHOW(thread_frame, offsetof(PyThreadState, cframe));
    SHOW(cframe_frame, offsetof(_PyCFrame, current_frame));
#else
    SHOW(thread_frame, offsetof(PyThreadState, frame));
#endif
#if PY_VERSION_HEX >= 0x030B0000
    SHOW(thread_native_id, offsetof(PyThreadState, native_thread_id));
    SHOW(frame_previous, offsetof(_PyInterpreterFrame, previous));
    SHOW(frame_owner, offsetof(_PyInterpreterFrame, owner));
    SHOW(code_qualname, offsetof(PyCodeObject, co_qualname));
    SHOW(code_first_traceable, offsetof(PyCodeObject, _co_firsttraceable));
    SHOW(code_bytecode, offsetof(PyCodeObject, co_code_adaptive));
    SHOW(code_lines, offsetof(PyCodeObject, co_linetable));
#else
    SHOW(frame_previous, offsetof(PyFrameObject, f_back));
    SHOW(frame_code, offsetof(PyFrameObject, f_code));
    SHOW(frame_instruction, offsetof(PyFrameObject, f_lasti));
#endif
#if PY_VERSION_HEX >= 0x030D0000
    SHOW(frame_code, offsetof(_PyInterpreterFrame, f_executable));
    SHOW(frame_instruction, offsetof(_PyInterpreterFrame, instr_ptr));
#elif PY_VERSION_HEX >= 0x030B0000
    SHOW(frame_code, offsetof(_PyInterpreterFrame, f_code));
    SHOW(frame_instruction, offsetof(_PyInterpreterFrame, prev_instr));
#elif PY_VERSION_HEX >= 0x030A0000
    SHOW(code_lines, offsetof(PyCodeObject, co_linetable));
#else
    SHOW(code_lines, offsetof(PyCodeObject, co_lnotab));
#endif
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
    SHOW(frame_is_entry, offsetof(_PyInterpreterFrame, is_entry));
#endif
#if defined(Py_GIL_DISABLED) && PY_VERSION_HEX >= 0x030E0000
    SHOW(frame_copy_index, offsetof(_PyInterpreterFrame, tlbc_index));
    SHOW(code_copies, offsetof(PyCodeObject, co_tlbc));
#endif
    SHOW(code_file, offsetof(PyCodeObject, co_filename));
    SHOW(code_name, offsetof(PyCodeObject, co_name));
    SHOW(code_first_line, offsetof(PyCodeObject, co_firstlineno));
    SHOW(text_length, offsetof(PyASCIIObject, length));
    SHOW(text_state, offsetof(PyASCIIObject, state));
    SHOW(text_kind_shift, kind_shift());
    SHOW(text_ascii_bytes, sizeof(PyASCIIObject));
    SHOW(text_compact_bytes, sizeof(PyCompactUnicodeObject));
    SHOW(bytes_size, offsetof(PyVarObject, ob_size));
    SHOW(bytes_data, offsetof(PyBytesObject, ob_sval));
    SHOW(object_type, offsetof(PyObject, ob_type));
    SHOW(type_name, offsetof(PyTypeObject, tp_name));
    show_words();
    return 0;
}
