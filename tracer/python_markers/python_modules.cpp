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
    PyObject* tasks_name;
    PyObject* current_task_name;
    PyObject* current_tasks_name;
    PyObject* flag_name;
    // Null until the program has imported them.
    PyObject* torch_compiler;  // torch.compiler's dictionary, where it has the flag
    PyObject* asyncio;         // its dictionary
    PyObject* running_loop;    // asyncio._get_running_loop
    // Of CPython up to 3.11, where they are in Python; else null.
    PyObject* tasks;             // the dictionary of asyncio.tasks
    PyObject* own_current_task;  // the function there
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

void release(PyObject* object) {
    if (object != nullptr) {
        python_api.Py_DecRef(object);
    }
}

// asyncio's own current_task in Python, which does no more than look into a dictionary: known by the names that it
// sees.
void find_own_current_task() {
    PyObject* const current_task = item_or_null(modules.asyncio, modules.current_task_name);
    PyObject* const module = item_or_null(modules.loaded, modules.tasks_name);
    PyObject* const tasks = module != nullptr ? attribute_or_null(module, "__dict__") : nullptr;
    PyObject* const seen = current_task != nullptr ? attribute_or_null(current_task, "__globals__") : nullptr;
    if (tasks != nullptr && seen == tasks && item_or_null(tasks, modules.current_tasks_name) != nullptr) {
        python_api.Py_IncRef(current_task);
        python_api.Py_IncRef(tasks);
        modules.own_current_task = current_task;
        modules.tasks = tasks;
    }
    release(seen);
    release(tasks);
}

[[gnu::cold, gnu::noinline]] bool find_asyncio(PyObject* asyncio) {
    python_api.Py_IncRef(asyncio);
    PyObject* const dictionary = attribute_or_null(asyncio, "__dict__");
    PyObject* const loop = attribute_or_null(asyncio, "_get_running_loop");
    python_api.Py_DecRef(asyncio);
    if (dictionary != nullptr && loop != nullptr && modules.running_loop == nullptr) {
        modules.asyncio = dictionary;
        modules.running_loop = loop;
        find_own_current_task();
    } else {
        release(dictionary);
        release(loop);
    }
    return modules.running_loop != nullptr;
}

// The function that says so is looked up each time: programs put others in its place.
[[gnu::noinline]] bool task_of(PyObject* loop, uint64_t& task) {
    const PythonApi& api = python_api;
    PyObject* const current_task = item_or_null(modules.asyncio, modules.current_task_name);
    if (current_task == nullptr) {
        return true;
    }
    if (current_task == modules.own_current_task) {
        PyObject* const of_loops = item_or_null(modules.tasks, modules.current_tasks_name);
        PyObject* const running = of_loops != nullptr ? item_or_null(of_loops, loop) : nullptr;
        task = reinterpret_cast<uint64_t>(running != nullptr ? running : api.none_object);  // as it says
        return true;
    }
    api.Py_IncRef(current_task);
    PyObject* const running = api.PyObject_CallFunctionObjArgs(current_task, loop, nullptr);
    api.Py_DecRef(current_task);
    task = reinterpret_cast<uint64_t>(running);
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
    modules.tasks_name = api.PyUnicode_InternFromString("asyncio.tasks");
    modules.current_task_name = api.PyUnicode_InternFromString("current_task");
    modules.current_tasks_name = api.PyUnicode_InternFromString("_current_tasks");
    modules.flag_name = api.PyUnicode_InternFromString("_is_compiling_flag");
    if (modules.loaded == nullptr || modules.torch_name == nullptr || modules.asyncio_name == nullptr ||
        modules.tasks_name == nullptr || modules.current_task_name == nullptr ||
        modules.current_tasks_name == nullptr || modules.flag_name == nullptr) {
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
