#include "python_span.h"

#include <cstddef>

#include "python_attributes.h"
#include "python_modules.h"
#include "python_places.h"
#include "spans.h"

namespace titan::tracer {
namespace {

// Entered and not left yet.
struct Entered {
    uint64_t id;        // as the program knows it; 0: nothing is recorded
    PyObject* in_task;  // what the context knows of it; null outside of tasks
    Entered* outer;     // of the same object: entered by another thread, or recursively
};

struct PySpan {
    PyObject head;
    PyObject* name;
    const char* text;  // the name's own, in UTF-8
    PyObject* names;   // of its attributes; null: it has none
    PyObject* values;  // theirs, all plain
    bool is_entered;
    Entered entered;  // the newest; others hang on it
};

// A function that people call titantrace.span.
struct PySpanMaker {
    PyObject head;
    PyVectorCall call;
    PyObject* attributes;
};

constinit PackageFunctions package_functions{};
constinit PyObject* span_type = nullptr;
constinit PyObject* span_maker = nullptr;

PySpan& span_of(PyObject* self) { return *reinterpret_cast<PySpan*>(self); }

// --- opening and closing ---------------------------------------------------------------------------------------------

uint64_t open_here(const char* name, uint32_t place, uint64_t task, uint64_t parent) {
    Thread* const thread = thread_for_marker();
    if (thread == nullptr) {
        return 0;
    }
    const Told told{.site = place, .parent = own_id(*thread->session, parent), .ticks = now_ticks(), .task = task};
    return public_id(*thread->session, open_span(*thread, name, told));
}

void close_here(uint64_t id) {
    Thread* const thread = id != 0 ? thread_for_marker() : nullptr;
    if (thread == nullptr) {
        return;
    }
    const uint32_t own = own_id(*thread->session, id);
    if (own == 0 || !close_span(*thread, own, told_now())) {
        count_loss(*thread->session, format::Loss::kSpansUnmatched);
    }
}

// Of what a context knows of a span: the id, 0 once it has ended; and the same of the span around it, or None.
constexpr Py_ssize_t kId = 0, kAround = 1;

uint64_t id_in(PyObject* in_task) {
    return python_api.PyLong_AsUnsignedLongLong(python_api.PyList_GetItem(in_task, kId));
}

// A new reference to the innermost one that is open, or to None; null: an error is set. `id`: its own.
PyObject* innermost_open(uint64_t& id) {
    const PythonApi& api = python_api;
    PyObject* innermost = nullptr;
    if (api.PyContextVar_Get(package_functions.innermost, nullptr, &innermost) != 0) {
        return nullptr;
    }
    PyObject* open = innermost;
    for (id = 0; open != api.none_object && (id = id_in(open)) == 0;) {
        open = api.PyList_GetItem(open, kAround);
    }
    api.Py_IncRef(open);
    api.Py_DecRef(innermost);
    return open;
}

// Takes `around` from the caller. A new reference; null: an error is set.
PyObject* known_in_task(uint64_t id, PyObject* around) {
    const PythonApi& api = python_api;
    PyObject* const number = api.PyLong_FromUnsignedLongLong(id);
    PyObject* const made = number != nullptr ? api.PyList_New(2) : nullptr;
    if (made == nullptr) {
        api.Py_DecRef(around);
        if (number != nullptr) {
            api.Py_DecRef(number);
        }
        return nullptr;
    }
    api.PyList_SetItem(made, kId, number);
    api.PyList_SetItem(made, kAround, around);
    return made;
}

bool become_innermost(PyObject* in_task) {
    PyObject* const token = python_api.PyContextVar_Set(package_functions.innermost, in_task);
    if (token != nullptr) {
        python_api.Py_DecRef(token);
    }
    return token != nullptr;
}

// Within the task's innermost span, in whose place it is from now on.
[[gnu::noinline]] bool open_in_task(const char* name, uint32_t place, uint64_t task, Entered& opened) {
    uint64_t parent = 0;
    PyObject* const around = innermost_open(parent);
    if (around == nullptr) {
        return forget_own_error();
    }
    opened.id = open_here(name, place, task, parent);
    opened.in_task = known_in_task(opened.id, around);
    if (opened.in_task != nullptr && become_innermost(opened.in_task)) {
        return true;
    }
    if (opened.in_task != nullptr) {
        python_api.Py_DecRef(opened.in_task);
        opened.in_task = nullptr;
    }
    if (forget_own_error()) {
        return true;
    }
    close_here(opened.id);
    return false;
}

// The context keeps it until the next one opens there: that is cheaper than to put back the one around it.
void end_in_task(PyObject* in_task) {
    PyObject* const none_open = python_api.PyLong_FromUnsignedLongLong(0);
    python_api.PyList_SetItem(in_task, kId, none_open);
    python_api.Py_DecRef(in_task);
}

bool open_for_caller(const char* name, Entered& opened) {
    uint64_t task;
    uint32_t place;
    if (!running_task(task) || !python_place(place)) {
        return false;
    }
    if (task != 0) {
        return open_in_task(name, place, task, opened);
    }
    opened.id = open_here(name, place, 0, 0);
    return true;
}

void remember(PySpan& span, const Entered& opened) {
    Entered* outer = nullptr;
    if (span.is_entered) [[unlikely]] {
        outer = static_cast<Entered*>(python_api.PyMem_Malloc(sizeof(Entered)));
        if (outer != nullptr) {
            *outer = span.entered;
        }
    }
    span.entered = {opened.id, opened.in_task, outer};
    span.is_entered = true;
}

Entered take_newest(PySpan& span) {
    const Entered newest = span.entered;
    span.is_entered = newest.outer != nullptr;
    if (newest.outer != nullptr) [[unlikely]] {
        span.entered = *newest.outer;
        python_api.PyMem_Free(newest.outer);
    }
    return newest;
}

// `error` is what leaves the span.
[[gnu::cold, gnu::noinline]] bool tell_failure(uint64_t id, PyObject* error) {
    const PythonApi& api = python_api;
    PyObject* const number = api.PyLong_FromUnsignedLongLong(id);
    PyObject* const done =
        number != nullptr ? api.PyObject_CallFunctionObjArgs(package_functions.mark_failure, number, error, nullptr)
                          : nullptr;
    const bool good = done != nullptr || forget_own_error();
    if (done != nullptr) {
        api.Py_DecRef(done);
    }
    if (number != nullptr) {
        api.Py_DecRef(number);
    }
    return good;
}

// Takes both from the caller; null where one is.
PyObject* call_with_all(PyObject* function, PyObject* arguments, PyObject* keywords) {
    const PythonApi& api = python_api;
    PyObject* const result =
        arguments != nullptr && keywords != nullptr ? api.PyObject_Call(function, arguments, keywords) : nullptr;
    PyObject* const both[] = {arguments, keywords};
    for (PyObject* const given : both) {
        if (given != nullptr) {
            api.Py_DecRef(given);
        }
    }
    return result;
}

// --- the type --------------------------------------------------------------------------------------------------------

PyObject* enter_span(PyObject* self, PyObject*) {
    bool compiling;
    if (!is_torch_compiling(compiling)) {
        return nullptr;
    }
    if (!compiling) {
        Entered opened{};
        if (!open_for_caller(span_of(self).text, opened)) {
            return nullptr;
        }
        remember(span_of(self), opened);
        if (span_of(self).names != nullptr && opened.id != 0) {
            tell_plain(opened.id, span_of(self).names, span_of(self).values);
        }
    }
    python_api.Py_IncRef(self);
    return self;
}

PyObject* exit_span(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    const PythonApi& api = python_api;
    if (count != 3) {
        api.PyErr_SetString(*api.type_error, "__exit__ takes an exception's type, the exception and its traceback");
        return nullptr;
    }
    if (!span_of(self).is_entered) {
        return none();
    }
    const Entered closed = take_newest(span_of(self));
    bool good = true;
    if (closed.in_task != nullptr) {
        end_in_task(closed.in_task);
    }
    if (closed.id != 0 && arguments[1] != api.none_object) [[unlikely]] {
        good = tell_failure(closed.id, arguments[1]);
    }
    close_here(closed.id);
    return good ? none() : nullptr;
}

PyObject* set_attributes(PyObject* self, PyObject* arguments, PyObject* attributes) {
    const PythonApi& api = python_api;
    if (api.PyTuple_Size(arguments) != 0) {
        api.PyErr_SetString(*api.type_error, "set takes attributes by name only");
        return nullptr;
    }
    if (!span_of(self).is_entered || attributes == nullptr) {
        return none();
    }
    PyObject* const id = api.PyLong_FromUnsignedLongLong(span_of(self).entered.id);
    PyObject* const done =
        id != nullptr ? api.PyObject_CallFunctionObjArgs(package_functions.add_attributes, id, attributes, nullptr)
                      : nullptr;
    if (id != nullptr) {
        api.Py_DecRef(id);
    }
    if (done != nullptr) {
        return done;
    }
    return forget_own_error() ? none() : nullptr;
}

// As a decorator it is a span in Python.
PyObject* call_span(PyObject* self, PyObject* arguments, PyObject* keywords) {
    const PythonApi& api = python_api;
    PyObject* const in_python = call_with_all(package_functions.span, tuple_of(&span_of(self).name, 1),
                                              dictionary_of(span_of(self).names, span_of(self).values));
    if (in_python == nullptr) {
        return nullptr;
    }
    PyObject* const result = api.PyObject_Call(in_python, arguments, keywords);
    api.Py_DecRef(in_python);
    return result;
}

// A copy, or one read from a pickle, is made anew, and has not been entered.
PyObject* reduce_span(PyObject* self, PyObject*) {
    PyObject* const attributes = dictionary_of(span_of(self).names, span_of(self).values);
    if (attributes == nullptr) {
        return nullptr;
    }
    PyObject* const given[] = {span_of(self).name, attributes};
    PyObject* const arguments = tuple_of(given, 2);
    python_api.Py_DecRef(attributes);
    if (arguments == nullptr) {
        return nullptr;
    }
    PyObject* const both[] = {package_functions.make_again, arguments};
    PyObject* const made = tuple_of(both, 2);
    python_api.Py_DecRef(arguments);
    return made;
}

void free_span(PyObject* self) {
    const PythonApi& api = python_api;
    PySpan& span = span_of(self);
    while (span.is_entered)
        [[unlikely]] {  // it stays open
            if (PyObject* const in_task = take_newest(span).in_task; in_task != nullptr) {
                api.Py_DecRef(in_task);
            }
        }
    api.Py_DecRef(span.name);
    if (span.names != nullptr) {
        api.Py_DecRef(span.names);
        api.Py_DecRef(span.values);
    }
    PyObject* const type = self->type;
    api.PyObject_Free(self);
    api.Py_DecRef(type);
}

// Both types: their objects are made here alone.
PyObject* refuse_new(PyObject*, PyObject*, PyObject*) {
    python_api.PyErr_SetString(*python_api.type_error, "use titantrace.span");
    return nullptr;
}

PyMethodDef span_methods[] = {
    {"__enter__", reinterpret_cast<void*>(enter_span), kMethodNoArguments, nullptr},
    {"__exit__", reinterpret_cast<void*>(exit_span), kMethodFast, nullptr},
    {"set", reinterpret_cast<void*>(set_attributes), kMethodKeywords,
     "Adds facts to the span while it is entered: text, int or float."},
    {"__reduce__", reinterpret_cast<void*>(reduce_span), kMethodNoArguments, nullptr},
    {},
};
PyTypeSlot span_slots[] = {
    {kSlotMethods, span_methods},
    {kSlotCall, reinterpret_cast<void*>(call_span)},
    {kSlotDealloc, reinterpret_cast<void*>(free_span)},
    {kSlotNew, reinterpret_cast<void*>(refuse_new)},
    {},
};

// --- titantrace.span -------------------------------------------------------------------------------------------------

[[gnu::cold, gnu::noinline]] PyObject* make_in_python(PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    PyObject* const values = tuple_of(arguments + count, names != nullptr ? python_api.PyTuple_Size(names) : 0);
    if (values == nullptr) {
        return nullptr;
    }
    PyObject* const keywords = dictionary_of(names, values);
    python_api.Py_DecRef(values);
    return call_with_all(package_functions.span, tuple_of(arguments, count), keywords);
}

PyObject* make_span(PyObject*, PyObject* const* arguments, size_t flagged_count, PyObject* names) {
    const PythonApi& api = python_api;
    const auto count = static_cast<Py_ssize_t>(flagged_count & ~kVectorCallMayWriteBefore);
    if (count != 1 || !is_text(arguments[0]) || (names != nullptr && !are_plain(names, arguments + 1))) [[unlikely]] {
        return make_in_python(arguments, count, names);
    }
    PyObject* const values = names != nullptr ? tuple_of(arguments + 1, api.PyTuple_Size(names)) : nullptr;
    if (names != nullptr && values == nullptr) {
        return nullptr;
    }
    PyObject* const made = api.PyType_GenericAlloc(span_type, 0);
    if (made == nullptr) {
        if (values != nullptr) {
            api.Py_DecRef(values);
        }
        return nullptr;
    }
    PySpan& span = span_of(made);
    api.Py_IncRef(arguments[0]);
    span.name = arguments[0];
    span.text = api.PyUnicode_AsUTF8AndSize(arguments[0], nullptr);
    if (names != nullptr) {
        api.Py_IncRef(names);
        span.names = names;
        span.values = values;
    }
    return made;
}

// Pickled and copied by its name, as functions are.
PyObject* reduce_maker(PyObject* self, PyObject*) { return python_api.PyObject_GetAttrString(self, "__qualname__"); }

PyMethodDef maker_methods[] = {
    {"__reduce__", reinterpret_cast<void*>(reduce_maker), kMethodNoArguments, nullptr},
    {},
};
PyMemberDef maker_members[] = {
    {"__vectorcalloffset__", kMemberSize, offsetof(PySpanMaker, call), kMemberReadOnly, nullptr},
    {"__dictoffset__", kMemberSize, offsetof(PySpanMaker, attributes), kMemberReadOnly, nullptr},
    {},
};

PyObject* make_type(const char* name, int bytes, unsigned flags, PyTypeSlot* slots) {
    PyTypeSpec spec{name, bytes, 0, flags, slots};
    return python_api.PyType_FromSpec(&spec);
}

}  // namespace

bool start_python_span(const PackageFunctions& package, PyObject*& span) {
    const PythonApi& api = python_api;
    static PyGetSetDef maker_properties[] = {
        {"__dict__", reinterpret_cast<void*>(api.PyObject_GenericGetDict),
         reinterpret_cast<void*>(api.PyObject_GenericSetDict), nullptr, nullptr},
        {},
    };
    static PyTypeSlot maker_slots[] = {
        {kSlotMethods, maker_methods},
        {kSlotMembers, maker_members},
        {kSlotGetSet, maker_properties},
        {kSlotCall, reinterpret_cast<void*>(api.PyVectorcall_Call)},
        {kSlotNew, reinterpret_cast<void*>(refuse_new)},
        {},
    };
    package_functions = package;
    span_type = make_type("titantrace.spans.SpanInC", sizeof(PySpan), kTypeDefault, span_slots);
    PyObject* const maker_type = span_type == nullptr ? nullptr
                                                      : make_type("titantrace.spans.SpanMaker", sizeof(PySpanMaker),
                                                                  kTypeDefault | kTypeHasVectorCall, maker_slots);
    span_maker = maker_type == nullptr ? nullptr : api.PyType_GenericAlloc(maker_type, 0);
    if (span_maker != nullptr) {
        reinterpret_cast<PySpanMaker*>(span_maker)->call = make_span;
    }
    span = span_maker;
    return span != nullptr;
}

}  // namespace titan::tracer
