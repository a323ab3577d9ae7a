// ATen/native/cuda/Reduce.cuh: sums, the largest, the smallest, whether any or all. The kernel has one parameter, a
// ReduceOp.
#include <cmath>
#include <cstring>
#include <map>

#include "foreign.h"
#include "layout.h"

namespace simgpu::foreign {

namespace {

struct Config {
    int element_bytes, inputs, outputs;
    int steps_and_blocks[11];
    bool vectorize_input;
    int output_vec_size;
};

// The operation is an object without members, which takes a byte all the same.
template <class Value>
struct ReduceOp {
    char operation;
    Value identity;
    Config config;
    OffsetCalculator<1> input_offsets;
    OffsetCalculator<2> output_offsets;  // of the result, and of its first input
    const char* source;
    char* results[2];
    void *accumulated, *of_blocks;
    int* semaphores;
    int64_t base_index;
    bool accumulate, final_output;
    int result_count;
};

template <class T>
struct Sum {
    static T combine(T a, T b) { return static_cast<T>(a + b); }
};

template <class T>
struct Largest {
    static T combine(T a, T b) { return a != a || a > b ? a : b; }  // what is no number wins
};

template <class T>
struct Smallest {
    static T combine(T a, T b) { return a != a || a < b ? a : b; }
};

struct Any {
    static bool combine(bool a, bool b) { return a || b; }
};

struct All {
    static bool combine(bool a, bool b) { return a && b; }
};

template <class Input, class Value, class Operation>
void reduce(void** args) {
    const auto& work = *static_cast<const ReduceOp<Value>*>(args[0]);
    for (int output = 0; output < work.config.outputs; ++output) {
        const auto base = work.output_offsets.get(static_cast<uint32_t>(output));
        Value value = work.identity;
        for (int input = 0; input < work.config.inputs; ++input) {
            const char* from = work.source + base[1] + work.input_offsets.get(static_cast<uint32_t>(input))[0];
            value = Operation::combine(value, static_cast<Value>(load<Input>(from)));
        }
        std::memcpy(work.results[0] + base[0], &value, sizeof(value));
    }
}

struct Row {
    SimgpuKernelBody body;
    uint32_t bytes;
};
using Rows = std::map<std::string, Row>;

// `name`: what the operation's type contains.
template <class Input, class Value, class Operation>
void add(Rows* to, const std::string& name) {
    (*to)[name + ": " + type_name<Input>() + " to " + type_name<Value>()] = {reduce<Input, Value, Operation>,
                                                                             sizeof(ReduceOp<Value>)};
}

constexpr const char* kOperations[] = {"sum_functor", "MaxNanFunctor", "MinNanFunctor", "or_kernel_cuda",
                                       "and_kernel_cuda"};

template <class T>
void add_type(Rows* to) {
    add<T, T, Sum<T>>(to, "sum_functor");
    add<T, T, Largest<T>>(to, "MaxNanFunctor");
    add<T, T, Smallest<T>>(to, "MinNanFunctor");
    add<T, bool, Any>(to, "or_kernel_cuda");
    add<T, bool, All>(to, "and_kernel_cuda");
}

const Rows& rows() {
    static const Rows all = [] {
        Rows made;
#define ADD(type, name, number) add_type<type>(&made);
        SIMGPU_SCALARS(ADD)
#undef ADD
        return made;
    }();
    return all;
}

}  // namespace

bool find_reduction(const TemplateName& name, SimgpuKernel* kernel) {
    if (name.name != "reduce_kernel" || name.arguments.size() != 3) {
        return false;
    }
    // ReduceOp<input, operation, index, result, ...>
    const TemplateName reduction = parse(name.arguments[2]);
    if (reduction.name != "ReduceOp" || reduction.arguments.size() < 4 || reduction.arguments[2] != "unsigned int") {
        return false;
    }
    for (const char* operation : kOperations) {
        if (reduction.arguments[1].find(operation) != std::string::npos) {
            const auto row = rows().find(operation + (": " + reduction.arguments[0]) + " to " + reduction.arguments[3]);
            if (row != rows().end()) {
                kernel->body = row->second.body;
                kernel->arg_count = 1;
                kernel->arg_bytes[0] = row->second.bytes;
                return true;
            }
        }
    }
    return false;
}

}  // namespace simgpu::foreign
