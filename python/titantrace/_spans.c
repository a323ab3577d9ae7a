/* `with span("forward"):` for CPython, in a tenth of the time that spans.py takes for the same; whatever is rare goes
 * to the functions there. One file for every CPython from 3.9 on that has a GIL (the stable ABI). It calls titantrace.h
 * as any program does.
 *
 * It imports nothing and looks into modules' dictionaries only, so that no module is loaded that the program has not
 * loaded itself. Only errors that can be ours are taken back: all others reach the program. */
#define Py_LIMITED_API 0x03090000
#include <Python.h>
#include <structmember.h>

#include "titantrace.h"

/* In CPython 3.9, too, though they joined the stable ABI with 3.10. */
PyAPI_FUNC(const char*) PyUnicode_AsUTF8AndSize(PyObject* text, Py_ssize_t* bytes);
#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

/* What spans.py gives to `start`, in this order. */
enum given {
    IN_PYTHON,     /* makes a span in Python of anything */
    NUMBER_OF,     /* the place that a frame is at */
    MARKS_NOW,     /* whether a marker would be recorded */
    MARK_FAILURE,  /* of a span by its id, that an exception leaves */
    GET_INNERMOST, /* of the context variable; see spans.py */
    SET_INNERMOST,
    TASK_NAME, /* of the running task, as bytes, or None */
    GIVEN
};
static PyObject* given[GIVEN];
static PyObject* span_type;

enum word { COMPILER, FLAG, ASYNCIO, RUNNING_LOOP, CURRENT_TASK, LASTI, WORDS };
static const char* const kWords[WORDS] = {"torch.compiler",    "_is_compiling_flag", "asyncio",
                                          "_get_running_loop", "current_task",       "f_lasti"};
static PyObject* words[WORDS];
static PyObject* zero;

/* References are counted by CPython's functions: the macros of an older header would count those of objects that have
 * become immortal, and never take them back. */
static PyObject* none(void) {
    Py_IncRef(Py_None);
    return Py_None;
}

/* True: there was none, or it can be ours (memory or recursion run out, modules taken apart at the end of the
 * interpreter), and is gone. False: it is the program's, raised by a handler of a signal. */
static int forget_own_error(void) {
    if (PyErr_Occurred() == NULL) {
        return 1;
    }
    if (Py_IsInitialized() && !PyErr_ExceptionMatches(PyExc_RecursionError) &&
        !PyErr_ExceptionMatches(PyExc_MemoryError)) {
        return 0;
    }
    PyErr_Clear();
    return 1;
}

/* --- modules --------------------------------------------------------------------------------------------------- */

/* Borrowed; null without an error. */
static PyObject* item(PyObject* dictionary, enum word word) {
    PyObject* const found = dictionary == NULL ? NULL : PyDict_GetItemWithError(dictionary, words[word]);
    if (found == NULL) {
        PyErr_Clear();
    }
    return found;
}

/* The dictionary of a module, borrowed; null where it is none that has been loaded. */
static PyObject* names_of(PyObject* module) {
    return module != NULL && (PyObject*)Py_TYPE(module) == (PyObject*)&PyModule_Type ? PyModule_GetDict(module) : NULL;
}

/* While torch.compile traces, what is called then is not called when the compiled function runs. */
static int is_compiling(void) {
    PyObject* const compiler = names_of(item(PyImport_GetModuleDict(), COMPILER));
    if (compiler == NULL) {
        return 0;
    }
    PyObject* const flag = item(compiler, FLAG);
    if (flag != NULL) {
        return flag != Py_False;
    }
    PyObject* const marks = PyObject_CallFunctionObjArgs(given[MARKS_NOW], NULL); /* another torch */
    const int found = marks == Py_False;
    Py_DecRef(marks);
    return found;
}

/* The number of the running task of asyncio; 0 outside of tasks. */
static uint64_t running_task(void) {
    PyObject* const asyncio = names_of(item(PyImport_GetModuleDict(), ASYNCIO));
    PyObject* const running_loop = item(asyncio, RUNNING_LOOP);
    PyObject* const loop = running_loop != NULL ? PyObject_CallFunctionObjArgs(running_loop, NULL) : NULL;
    PyObject* const current_task = loop != NULL && loop != Py_None ? item(asyncio, CURRENT_TASK) : NULL;
    PyObject* const task = current_task != NULL ? PyObject_CallFunctionObjArgs(current_task, loop, NULL) : NULL;
    const uint64_t number = (uintptr_t)task;
    if (task == NULL && PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_RuntimeError)) {
        PyErr_Clear(); /* no loop, after all */
    }
    Py_DecRef(task);
    Py_DecRef(loop);
    return number;
}

/* --- places ---------------------------------------------------------------------------------------------------- */

enum { PLACES = 1 << 12, PROBES = 8 };
static struct place {
    PyObject* code; /* kept, so that no other code object lies there */
    long instruction;
    uint32_t number;
} places[PLACES];

static struct place* row_of(PyObject* code, long instruction) {
    const uint64_t key = ((uintptr_t)code + (uint64_t)instruction * 2) * 0x9e3779b97f4a7c15U;
    struct place* row = NULL;
    for (uint64_t probe = 0; probe < PROBES; ++probe) {
        row = &places[((key >> 52) + probe) % PLACES];
        if (row->code == NULL || (row->code == code && row->instruction == instruction)) {
            break;
        }
    }
    return row; /* the last one of a full neighbourhood makes room */
}

/* The number of the place that the frame is at, as Python tells it to the tracer. */
static uint32_t ask_place(PyObject* frame, PyObject* code, long instruction) {
    PyObject* const told = PyObject_CallFunctionObjArgs(given[NUMBER_OF], frame, NULL);
    const uint32_t number = told != NULL ? (uint32_t)PyLong_AsUnsignedLongMask(told) : 0;
    Py_DecRef(told);
    if (number != 0) {
        struct place* const row = row_of(code, instruction); /* now: the call may have let another thread in */
        PyObject* const before = row->code;
        Py_IncRef(code);
        *row = (struct place){code, instruction, number};
        Py_DecRef(before);
    }
    return number;
}

/* 0: nowhere, or nothing is recorded. An error may be set. */
static uint32_t place_of_caller(void) {
    PyFrameObject* const frame = PyEval_GetFrame();
    PyObject* const lasti = frame != NULL ? PyObject_GetAttr((PyObject*)frame, words[LASTI]) : NULL;
    if (lasti == NULL) {
        return 0;
    }
    const long instruction = PyLong_AsLong(lasti);
    Py_DecRef(lasti);
    PyObject* const code = (PyObject*)PyFrame_GetCode(frame);
    const struct place* const row = row_of(code, instruction);
    uint32_t number = row->code == code && row->instruction == instruction ? row->number : 0;
    if (number == 0 && titan_site("titantrace") != 0) {
        Py_IncRef((PyObject*)frame);
        number = ask_place((PyObject*)frame, code, instruction);
        Py_DecRef((PyObject*)frame);
    }
    Py_DecRef(code);
    return number;
}

/* In a forked child, which has another record. */
static PyObject* forget_places(PyObject* module, PyObject* nothing) {
    (void)module, (void)nothing;
    for (struct place* row = places; row != places + PLACES; ++row) {
        row->number = 0;
    }
    return none();
}

/* --- spans of a task: what its context knows of the innermost one, a list [id, what is known of the one around it,
 * number of the task, its name or None] --- */

enum { ID, AROUND, TASK, NAME, KNOWN };

static int is_of_task(PyObject* known, uint64_t task) {
    return known != Py_None && PyLong_AsUnsignedLongLong(PyList_GetItem(known, TASK)) == task;
}

static int has_ended(PyObject* known) {
    return known != Py_None && PyLong_AsUnsignedLongLong(PyList_GetItem(known, ID)) == 0;
}

/* In the place of an ended one stands the one around that: chains do not grow. Borrowed. */
static PyObject* open_around(PyObject* known) {
    PyObject* around = PyList_GetItem(known, AROUND);
    while (has_ended(around)) {
        around = PyList_GetItem(around, AROUND);
    }
    return around;
}

/* Opens it in the task's innermost one, in whose place it is from now on, and gives what the context knows of it; null
 * where that fails: an error is set, and `*id` may be open. */
static PyObject* open_in_task(const char* name, titan_mark* mark, uint64_t* id) {
    PyObject* const innermost = PyObject_CallFunctionObjArgs(given[GET_INNERMOST], NULL);
    if (innermost == NULL) {
        *id = titan_span_open(name, mark);
        return NULL;
    }
    PyObject* const around = has_ended(innermost) ? open_around(innermost) : innermost;
    mark->parent = around != Py_None ? PyLong_AsUnsignedLongLong(PyList_GetItem(around, ID)) : 0;
    *id = titan_span_open(name, mark);
    PyObject* task_name; /* asked for once in a task */
    if (is_of_task(innermost, mark->task)) {
        task_name = PyList_GetItem(innermost, NAME);
        Py_IncRef(task_name);
    } else {
        task_name = PyObject_CallFunctionObjArgs(given[TASK_NAME], NULL);
    }
    if (task_name != NULL && task_name != Py_None && *id != 0 && !is_of_task(around, mark->task)) {
        titan_attribute_text(*id, "task_name", PyBytes_AsString(task_name));
    }
    PyObject* const known = task_name != NULL ? PyList_New(KNOWN) : NULL;
    PyObject* const number = known != NULL ? PyLong_FromUnsignedLongLong(*id) : NULL;
    PyObject* const task = number != NULL ? PyLong_FromUnsignedLongLong(mark->task) : NULL;
    PyObject* token = NULL;
    if (task != NULL) {
        Py_IncRef(around);
        PyList_SetItem(known, ID, number);
        PyList_SetItem(known, AROUND, around);
        PyList_SetItem(known, TASK, task);
        PyList_SetItem(known, NAME, task_name);
        token = PyObject_CallFunctionObjArgs(given[SET_INNERMOST], known, NULL);
    } else {
        Py_DecRef(number);
        Py_DecRef(task_name);
    }
    Py_DecRef(innermost);
    if (token == NULL) {
        Py_DecRef(known);
        return NULL;
    }
    Py_DecRef(token);
    return known;
}

/* The context keeps it until the next one opens there: that is cheaper than to put back the one around it. */
static void end_in_task(PyObject* known) {
    PyObject* const around = open_around(known);
    Py_IncRef(around);
    PyList_SetItem(known, AROUND, around);
    Py_IncRef(zero);
    PyList_SetItem(known, ID, zero);
    Py_DecRef(known);
}

/* --- the type -------------------------------------------------------------------------------------------------- */

/* Entered and not left yet. */
struct entered {
    uint64_t id;           /* 0: nothing is recorded */
    PyObject* known;       /* what the context knows of it; null outside of tasks */
    struct entered* outer; /* of the same object: entered by another thread, or recursively */
};

struct span {
    PyObject head;
    PyObject* name;
    PyObject* attributes; /* all plain; null: none */
    char is_entered;
    struct entered entered; /* the newest; others hang on it */
};

/* They refer to nothing, so that a span which holds them is in no cycle of references. */
static int is_plain(PyObject* value) {
    int overflow = 0;
    if ((PyObject*)Py_TYPE(value) == (PyObject*)&PyLong_Type) {
        PyLong_AsLongLongAndOverflow(value, &overflow);
        return !overflow;
    }
    if ((PyObject*)Py_TYPE(value) == (PyObject*)&PyUnicode_Type) {
        const int is_utf8 = PyUnicode_AsUTF8AndSize(value, NULL) != NULL;
        if (!is_utf8) { /* surrogates */
            PyErr_Clear();
        }
        return is_utf8;
    }
    return (PyObject*)Py_TYPE(value) == (PyObject*)&PyFloat_Type;
}

static void tell_attributes(uint64_t id, PyObject* attributes) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; attributes != NULL && PyDict_Next(attributes, &at, &key, &value);) {
        const char* const name = PyUnicode_AsUTF8AndSize(key, NULL);
        if ((PyObject*)Py_TYPE(value) == (PyObject*)&PyLong_Type) {
            titan_attribute_integer(id, name, PyLong_AsLongLong(value));
        } else if ((PyObject*)Py_TYPE(value) == (PyObject*)&PyFloat_Type) {
            titan_attribute_double(id, name, PyFloat_AsDouble(value));
        } else {
            titan_attribute_text(id, name, PyUnicode_AsUTF8AndSize(value, NULL));
        }
    }
}

static struct entered take_newest(struct span* span) {
    const struct entered newest = span->entered;
    span->is_entered = newest.outer != NULL;
    if (newest.outer != NULL) {
        span->entered = *newest.outer;
        PyMem_Free(newest.outer);
    }
    return newest;
}

static PyObject* enter(PyObject* self, PyObject* nothing) {
    (void)nothing;
    struct span* const span = (struct span*)self;
    struct entered opened = {0, NULL, NULL};
    if (!is_compiling() && forget_own_error()) {
        titan_mark mark = {.bytes = sizeof(mark), .task = running_task()};
        if (forget_own_error()) {
            mark.site = place_of_caller();
        }
        const char* const name = PyUnicode_AsUTF8AndSize(span->name, NULL);
        if (!forget_own_error()) {
            return NULL;
        }
        if (mark.task != 0) {
            opened.known = open_in_task(name, &mark, &opened.id);
        } else {
            opened.id = titan_span_open(name, &mark);
        }
        if (!forget_own_error()) {
            titan_span_close(opened.id, NULL);
            Py_DecRef(opened.known);
            return NULL;
        }
        if (span->is_entered && (opened.outer = PyMem_Malloc(sizeof(struct entered))) != NULL) {
            *opened.outer = span->entered;
        }
        span->entered = opened;
        span->is_entered = 1;
        if (opened.id != 0) {
            tell_attributes(opened.id, span->attributes);
        }
    }
    if (!forget_own_error()) {
        return NULL;
    }
    Py_IncRef(self);
    return self;
}

static PyObject* leave(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "__exit__ takes an exception's type, the exception and its traceback");
        return NULL;
    }
    if (!((struct span*)self)->is_entered) {
        return none();
    }
    const struct entered closed = take_newest((struct span*)self);
    if (closed.known != NULL) {
        end_in_task(closed.known);
    }
    if (closed.id != 0 && arguments[1] != Py_None) {
        PyObject* const id = PyLong_FromUnsignedLongLong(closed.id);
        PyObject* const told =
            id != NULL ? PyObject_CallFunctionObjArgs(given[MARK_FAILURE], id, arguments[1], NULL) : NULL;
        Py_DecRef(told);
        Py_DecRef(id);
    }
    titan_span_close(closed.id, NULL);
    if (!forget_own_error()) {
        return NULL;
    }
    return none();
}

static void free_span(PyObject* self) {
    struct span* const span = (struct span*)self;
    while (span->is_entered) { /* it stays open */
        Py_DecRef(take_newest(span).known);
    }
    Py_DecRef(span->name);
    Py_DecRef(span->attributes);
    PyObject* const type = (PyObject*)Py_TYPE(self);
    PyObject_Free(self);
    Py_DecRef(type);
}

static PyMethodDef span_methods[] = {
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))leave, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef span_members[] = {
    {"name", T_OBJECT, offsetof(struct span, name), READONLY, NULL},
    {"attributes", T_OBJECT, offsetof(struct span, attributes), READONLY, NULL},
    {"is_entered", T_BOOL, offsetof(struct span, is_entered), READONLY, NULL},
    {"id", T_ULONGLONG, offsetof(struct span, entered.id), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
/* Its objects are made by `make` alone. */
static PyObject* refuse(PyTypeObject* type, PyObject* arguments, PyObject* named) {
    (void)type, (void)arguments, (void)named;
    PyErr_SetString(PyExc_TypeError, "use titantrace.span");
    return NULL;
}

static PyType_Slot span_slots[] = {
    {Py_tp_new, refuse}, {Py_tp_methods, span_methods}, {Py_tp_members, span_members}, {Py_tp_dealloc, free_span},
    {0, NULL},
};
static PyType_Spec span_spec = {"titantrace._spans.SpanInC", sizeof(struct span), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, span_slots};

/* --- what makes them ------------------------------------------------------------------------------------------- */

static int are_plain(PyObject* attributes) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(attributes, &at, &key, &value);) {
        if (!is_plain(key) || !is_plain(value)) {
            return 0;
        }
    }
    return 1;
}

static PyObject* make(PyObject* self, PyObject* arguments, PyObject* attributes) {
    (void)self;
    PyObject* const name = PyTuple_Size(arguments) == 1 ? PyTuple_GetItem(arguments, 0) : NULL;
    if (name == NULL || (PyObject*)Py_TYPE(name) != (PyObject*)&PyUnicode_Type || !is_plain(name) ||
        (attributes != NULL && !are_plain(attributes))) {
        return PyObject_Call(given[IN_PYTHON], arguments, attributes);
    }
    struct span* const made = (struct span*)PyType_GenericAlloc((PyTypeObject*)span_type, 0);
    if (made == NULL) {
        return NULL;
    }
    Py_IncRef(name);
    Py_IncRef(attributes);
    made->name = name;
    made->attributes = attributes;
    return (PyObject*)made;
}

static PyType_Slot maker_slots[] = {{Py_tp_call, make}, {0, NULL}};
static PyType_Spec maker_spec = {"titantrace._spans.Maker", sizeof(PyObject), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, maker_slots};

static PyObject* start(PyObject* module, PyObject* all) {
    (void)module;
    for (int n = 0; n < GIVEN; ++n) {
        PyObject* const one = PyTuple_GetItem(all, n);
        if (one == NULL) {
            return NULL;
        }
        Py_IncRef(one);
        given[n] = one;
    }
    return none();
}

static PyMethodDef functions[] = {
    {"start", start, METH_VARARGS, NULL},
    {"forget_places", forget_places, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static int make_types(PyObject* module) {
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0 || span_type != NULL) {
        PyErr_SetString(PyExc_ImportError, "titantrace._spans is once in a process, in its first interpreter");
        return -1;
    }
    for (int n = 0; n < WORDS; ++n) {
        if ((words[n] = PyUnicode_InternFromString(kWords[n])) == NULL) {
            return -1;
        }
    }
    zero = PyLong_FromLong(0);
    PyObject* const maker = PyType_FromSpec(&maker_spec);
    span_type = PyType_FromSpec(&span_spec);
    if (zero == NULL || maker == NULL || span_type == NULL) {
        return -1;
    }
    Py_IncRef(span_type);
    return PyModule_AddObject(module, "Maker", maker) != 0 ? -1 : PyModule_AddObject(module, "SpanInC", span_type);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, make_types}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "titantrace._spans", .m_methods = functions,
                                        .m_slots = module_slots};

PyMODINIT_FUNC PyInit__spans(void) { return PyModuleDef_Init(&definition); }
