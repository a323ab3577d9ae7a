#include "python_places.h"

#include "base/hash.h"
#include "base/map_private.h"

namespace titan::tracer {
namespace {

struct KnownPlace {
    PyObject* code;  // ours to keep, so that no other code object lies there; null: a free row
    int32_t instruction;
    uint32_t number;  // 0: to be asked for again
};

constexpr uint32_t kPlaceRowsLog2 = 12;
constexpr uint32_t kPlaceRows = 1U << kPlaceRowsLog2;
constexpr uint32_t kMostPlaces = kPlaceRows * 3 / 4;  // the tracer has room for fewer

constinit KnownPlace* known_places = nullptr;
constinit uint32_t known_places_used = 0;
constinit PyObject* number_of_place = nullptr;

int32_t instruction_of(PyObject* frame) {
    const PythonApi& api = python_api;
    if (api.PyFrame_GetLasti != nullptr) [[likely]] {
        return api.PyFrame_GetLasti(frame);
    }
    PyObject* const value = attribute_or_null(frame, "f_lasti");
    if (value == nullptr) {
        return -1;
    }
    const auto instruction = static_cast<int32_t>(api.PyLong_AsUnsignedLongLong(value));
    api.Py_DecRef(value);
    if (instruction < 0) {
        api.PyErr_Clear();
    }
    return instruction;
}

// The row of the place, or the one for it.
KnownPlace& row_of(PyObject* code, int32_t instruction) {
    const uint64_t key = reinterpret_cast<uint64_t>(code) + static_cast<uint64_t>(instruction) * 2 + 1;
    uint64_t row = (key * kHashMultiplier) >> (64 - kPlaceRowsLog2);
    while (known_places[row].code != nullptr &&
           (known_places[row].code != code || known_places[row].instruction != instruction)) {
        row = (row + 1) % kPlaceRows;
    }
    return known_places[row];
}

[[gnu::cold, gnu::noinline]] bool ask_place(PyObject* frame, PyObject* code, int32_t instruction, uint32_t& number) {
    const PythonApi& api = python_api;
    PyObject* const told = api.PyObject_CallFunctionObjArgs(number_of_place, frame, nullptr);
    if (told == nullptr) {
        return forget_own_error();
    }
    number = static_cast<uint32_t>(api.PyLong_AsUnsignedLongLong(told));
    api.Py_DecRef(told);
    if (api.PyErr_Occurred() != nullptr) {
        number = 0;
        return forget_own_error();
    }
    KnownPlace& row = row_of(code, instruction);  // now: the call may have let another thread in
    if (row.code == nullptr && number != 0 && known_places_used < kMostPlaces) {
        api.Py_IncRef(code);
        row = {code, instruction, 0};
        ++known_places_used;
    }
    if (row.code != nullptr) {
        row.number = number;
    }
    return true;
}

}  // namespace

bool start_python_places(PyObject* number_of) {
    known_places = map_private<KnownPlace>(kPlaceRows);
    number_of_place = number_of;
    return known_places != nullptr;
}

bool python_place(uint32_t& number) {
    const PythonApi& api = python_api;
    number = 0;
    PyObject* const frame = api.PyEval_GetFrame();
    if (frame == nullptr) [[unlikely]] {
        return true;
    }
    PyObject* const code = api.PyFrame_GetCode(frame);
    const int32_t instruction = instruction_of(frame);
    const KnownPlace& row = row_of(code, instruction);
    number = row.code != nullptr ? row.number : 0;
    bool good = true;
    if (number == 0) [[unlikely]] {
        api.Py_IncRef(frame);
        good = ask_place(frame, code, instruction, number);
        api.Py_DecRef(frame);
    }
    api.Py_DecRef(code);
    return good;
}

void forget_python_places() {
    for (uint32_t row = 0; row < kPlaceRows; ++row) {
        known_places[row].number = 0;
    }
}

}  // namespace titan::tracer
