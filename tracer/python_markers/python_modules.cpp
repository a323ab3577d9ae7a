#include "python_modules.h"

namespace titan::tracer {
namespace {

struct ModulesState {
    PyObject* loaded;  // sys.modules
    // How many there were when a module was last looked for in vain.
    Py_ssize_t without_torch;
    Py_ssize_t without_asyncio;
    PyObject* torch_name;
    PyObject* asyncio_name;
    PyObject* current_task_name;
    PyObject* flag_name;
    // Null until the program has imported them.
    PyObject* torch_compiler;  // torch.compiler's dictionary, where it has the flag
    PyObject* asyncio;
    PyObject* running_loop;  // asyncio._get_running_loop
};

constinit ModulesState modules{};

// Borrowed; null without an error.
PyObject* item_or_null(PyObject* dictionary, PyObject* key) {
    PyObject* const found = python_api.PyDict_GetItemWithError(dictionary, key);
    if (found == nullptr && python_api.PyErr_Occurred() != nullptr) [[unlikely]] {
        python_api.PyErr_Clear();
    }
    return found;
}

// Borrowed; null while no other modules have come. An import brings many.
PyObject* module_or_null(PyObject* name, Py_ssize_t& without) {
    const Py_ssize_t now = python_api.PyDict_Size(modules.loaded);
    if (now == without) [[likely]] {
        return nullptr;
    }
    PyObject* const found = item_or_null(modules.loaded, name);
    without = found == nullptr ? now : 0;
    return found;
}

// Its answer, of a torch that keeps no flag, or is being imported.
bool ask_torch(PyObject* compiler, bool& compiling) {
    const PythonApi& api = python_api;
    PyObject* const answer = attribute_or_null(compiler, "is_compiling");
    if (answer == nullptr) {
        return true;
    }
    PyObject* const told = api.PyObject_CallNoArgs(answer);
    api.Py_DecRef(answer);
    if (told == nullptr) {
        return forget_own_error();
    }
    compiling = api.PyObject_IsTrue(told) == 1;
    api.Py_DecRef(told);
    return true;
}

[[gnu::cold, gnu::noinline]] bool find_torch(PyObject* torch, bool& compiling) {
    const PythonApi& api = python_api;
    api.Py_IncRef(torch);
    PyObject* const compiler = attribute_or_null(torch, "compiler");
    api.Py_DecRef(torch);
    if (compiler == nullptr) {
        return true;
    }
    const bool good = ask_torch(compiler, compiling);
    PyObject* const dictionary = attribute_or_null(compiler, "__dict__");
    if (dictionary != nullptr && modules.torch_compiler == nullptr &&
        item_or_null(dictionary, modules.flag_name) != nullptr) {
        modules.torch_compiler = dictionary;
    } else if (dictionary != nullptr) {
        api.Py_DecRef(dictionary);
    }
    api.Py_DecRef(compiler);
    return good;
}

[[gnu::cold, gnu::noinline]] bool find_asyncio(PyObject* asyncio) {
    python_api.Py_IncRef(asyncio);
    PyObject* const loop = attribute_or_null(asyncio, "_get_running_loop");
    if (loop != nullptr && modules.running_loop == nullptr) {
        modules.asyncio = asyncio;
        modules.running_loop = loop;
    } else {
        python_api.Py_DecRef(asyncio);
    }
    return modules.running_loop != nullptr;
}

// The function that says so is looked up each time: programs put others in its place.
[[gnu::noinline]] bool task_of(PyObject* loop, uint64_t& task) {
    const PythonApi& api = python_api;
    PyObject* const current_task = api.PyObject_GetAttr(modules.asyncio, modules.current_task_name);
    PyObject* const running =
        current_task != nullptr ? api.PyObject_CallFunctionObjArgs(current_task, loop, nullptr) : nullptr;
    task = reinterpret_cast<uint64_t>(running);
    if (current_task != nullptr) {
        api.Py_DecRef(current_task);
    }
    if (running != nullptr) {
        api.Py_DecRef(running);
    } else if (api.PyErr_ExceptionMatches(*api.runtime_error) != 0) {  // no loop, after all
        api.PyErr_Clear();
    }
    return api.PyErr_Occurred() == nullptr || forget_own_error();
}

}  // namespace

bool start_python_modules() {
    const PythonApi& api = python_api;
    modules.loaded = api.PyImport_GetModuleDict();
    modules.torch_name = api.PyUnicode_InternFromString("torch");
    modules.asyncio_name = api.PyUnicode_InternFromString("asyncio");
    modules.current_task_name = api.PyUnicode_InternFromString("current_task");
    modules.flag_name = api.PyUnicode_InternFromString("_is_compiling_flag");
    if (modules.loaded == nullptr || modules.torch_name == nullptr || modules.asyncio_name == nullptr ||
        modules.current_task_name == nullptr || modules.flag_name == nullptr) {
        return false;
    }
    api.Py_IncRef(modules.loaded);
    return true;
}

bool is_torch_compiling(bool& compiling) {
    const PythonApi& api = python_api;
    compiling = false;
    if (modules.torch_compiler == nullptr) {
        PyObject* const torch = module_or_null(modules.torch_name, modules.without_torch);
        return torch == nullptr || find_torch(torch, compiling);
    }
    PyObject* const flag = item_or_null(modules.torch_compiler, modules.flag_name);
    compiling = flag != nullptr && flag != api.false_object;
    return true;
}

bool running_task(uint64_t& task) {
    const PythonApi& api = python_api;
    task = 0;
    if (modules.running_loop == nullptr) {
        PyObject* const asyncio = module_or_null(modules.asyncio_name, modules.without_asyncio);
        if (asyncio == nullptr || !find_asyncio(asyncio)) {
            return true;
        }
    }
    PyObject* const loop = api.PyObject_CallNoArgs(modules.running_loop);
    if (loop == nullptr) [[unlikely]] {
        return forget_own_error();
    }
    const bool good = loop == api.none_object || task_of(loop, task);
    api.Py_DecRef(loop);
    return good;
}

}  // namespace titan::tracer
