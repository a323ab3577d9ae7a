// ATen/native/cuda/CUDALoops.cuh: one function of one element of each operand. Its parameter is the function's object,
// laid out as here. Operand 0 is the result.
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "foreign.h"
#include "layout.h"

namespace simgpu::foreign {

namespace {

// Functions, named as in PyTorch. "Unary" ones have one operand bound to a number from the host.

template <class T>
struct Fill {
    T value;
    T operator()() const { return value; }
};

template <class From, class To = From>
struct Copy {
    To operator()(From x) const { return static_cast<To>(x); }
};

template <class T>
struct Compare {
    int operation;
    bool operator()(T a, T b) const {
        switch (operation) {
            case 0: return a >= b;
            case 1: return a > b;
            case 2: return a <= b;
            default: return a < b;
        }
    }
};

template <class T>
struct CompareEqual {
    int operation;
    bool operator()(T a, T b) const { return (a == b) == (operation == 0); }
};

template <class T>
T sum_of(T a, T b, T alpha) {
    const auto sum = a + alpha * b;
    return static_cast<T>(sum);
}

template <class T>
struct Add {
    T alpha;
    T operator()(T a, T b) const { return sum_of(a, b, alpha); }
};

template <class T>
struct AddToOperand {
    T other, alpha;
    T operator()(T a) const { return sum_of(a, other, alpha); }
};

template <class T>
struct AddOperand {
    T other, alpha;
    T operator()(T a) const { return sum_of(other, a, alpha); }
};

template <class T>
struct Multiply {
    T operator()(T a, T b) const {
        const auto product = a * b;
        return static_cast<T>(product);
    }
};

template <class T>
struct Largest {
    T operator()(T a, T b) const { return a != a || a > b ? a : b; }  // what is no number wins
};

template <class T>
struct Smallest {
    T operator()(T a, T b) const { return a != a || a < b ? a : b; }
};

template <class T>
struct Both {
    bool operator()(T a, T b) const { return a != T() && b != T(); }
};

template <class T>
struct Either {
    bool operator()(T a, T b) const { return a != T() || b != T(); }
};

template <class T>
struct Neither {
    bool operator()(T a) const { return a == T(); }
};

template <class T, class F>
struct Binary {
    F function;
    auto operator()(T a, T b) const { return function(a, b); }
};

template <class T, class F>
struct FirstBound {
    F function;
    T first;
    auto operator()(T b) const { return function(first, b); }
};

template <class T, class F>
struct SecondBound {
    F function;
    T second;
    auto operator()(T a) const { return function(a, second); }
};

template <class T>
void store(char* to, T value) {
    std::memcpy(to, &value, sizeof(value));
}

// `type`: c10::ScalarType. What has no representation here is left alone.
template <class T>
T load_converted(int8_t type, const char* from) {
    switch (type) {
#define CASE(stored, name, number) \
    case number: return static_cast<T>(load<stored>(from));
        SIMGPU_SCALARS(CASE)
#undef CASE
        default: return T();
    }
}

template <class T>
void store_converted(int8_t type, char* to, T value) {
    switch (type) {
#define CASE(stored, name, number) \
    case number: return store(to, static_cast<stored>(value));
        SIMGPU_SCALARS(CASE)
#undef CASE
        default: return;
    }
}

template <class F, class Signature>
struct Kernels;

template <class F, class Object, class R, class... A>
struct Kernels<F, R (Object::*)(A...) const> {
    static constexpr size_t kOperands = 1 + sizeof...(A);
    using Operands = std::array<char*, kOperands>;
    using Types = std::array<int8_t, kOperands>;

    // LoadWithCast<N> and StoreWithCast<1>.
    template <size_t n>
    struct Conversion {
        std::array<int8_t, (n > 0 ? n : 1)> types;
        std::array<uint32_t, (n > 0 ? n : 1)> sizes;
    };

    // The lambdas of gpu_kernel_impl_nocast and gpu_kernel_impl.
    struct Strided {
        OffsetCalculator<static_cast<int>(kOperands)> offsets;
        Operands operands;
        F function;
    };
    struct StridedConverting {
        OffsetCalculator<static_cast<int>(kOperands)> offsets;
        Operands operands;
        F function;
        Types types;
    };

    template <size_t... i>
    static void element(const F& function, const Operands& at, std::index_sequence<i...>) {
        store<R>(at[0], function(load<A>(at[1 + i])...));
    }

    template <size_t... i>
    static void element(const F& function, const Operands& at, const Types& types, std::index_sequence<i...>) {
        store_converted<R>(types[0], at[0], function(load_converted<A>(types[1 + i], at[1 + i])...));
    }

    static constexpr std::make_index_sequence<sizeof...(A)> kInputs = {};

    static void contiguous(void** args) {
        const auto& function = *static_cast<const F*>(args[1]);
        Operands at = *static_cast<const Operands*>(args[2]);
        constexpr std::array<size_t, kOperands> kSizes = {sizeof(R), sizeof(A)...};
        for (int left = *static_cast<const int*>(args[0]); left > 0; --left) {
            element(function, at, kInputs);
            for (size_t i = 0; i < kOperands; ++i) {
                at[i] += kSizes[i];
            }
        }
    }

    static void converting(void** args) {
        const auto& function = *static_cast<const F*>(args[1]);
        Operands at = *static_cast<const Operands*>(args[2]);
        const auto& in = *static_cast<const Conversion<sizeof...(A)>*>(args[5]);
        const auto& out = *static_cast<const Conversion<1>*>(args[6]);
        Types types = {out.types[0]};
        std::array<size_t, kOperands> sizes = {out.sizes[0]};
        for (size_t i = 1; i < kOperands; ++i) {
            types[i] = in.types[i - 1];
            sizes[i] = in.sizes[i - 1];
        }
        for (int left = *static_cast<const int*>(args[0]); left > 0; --left) {
            element(function, at, types, kInputs);
            for (size_t i = 0; i < kOperands; ++i) {
                at[i] += sizes[i];
            }
        }
    }

    template <class Work>
    static Operands operands_at(const Work& work, int index) {
        const auto offsets = work.offsets.get(static_cast<uint32_t>(index));
        Operands at = work.operands;
        for (size_t i = 0; i < kOperands; ++i) {
            at[i] += offsets[i];
        }
        return at;
    }

    static void strided(void** args) {
        const auto& work = *static_cast<const Strided*>(args[1]);
        for (int i = 0, count = *static_cast<const int*>(args[0]); i < count; ++i) {
            element(work.function, operands_at(work, i), kInputs);
        }
    }

    static void strided_converting(void** args) {
        const auto& work = *static_cast<const StridedConverting*>(args[1]);
        for (int i = 0, count = *static_cast<const int*>(args[0]); i < count; ++i) {
            element(work.function, operands_at(work, i), work.types, kInputs);
        }
    }

    static inline const SimgpuKernel kContiguous{nullptr, contiguous, 3, {sizeof(int), sizeof(F), sizeof(Operands)}};
    static inline const SimgpuKernel kConverting{
        nullptr,
        converting,
        7,
        {sizeof(int), sizeof(F), sizeof(Operands), 1, 1, sizeof(Conversion<sizeof...(A)>), sizeof(Conversion<1>)}};
    static inline const SimgpuKernel kStrided{nullptr, strided, 2, {sizeof(int), sizeof(Strided)}};
    static inline const SimgpuKernel kStridedConverting{
        nullptr, strided_converting, 2, {sizeof(int), sizeof(StridedConverting)}};
};

struct Forms {
    const SimgpuKernel *contiguous, *converting, *strided, *strided_converting;
};

using Functions = std::map<std::string, Forms>;

template <class F>
void add(Functions* to, const std::string& name) {
    using Of = Kernels<F, decltype(&F::operator())>;
    (*to)[name] = {&Of::kContiguous, &Of::kConverting, &Of::kStrided, &Of::kStridedConverting};
}

// A function of two operands, and of one where the other is a number from the host. `result`: what it returns.
template <class T, class F>
void add_wrapped(Functions* to, const std::string& result, const std::string& name) {
    const std::string type = type_name<T>();
    const auto wrapped = [&](const char* wrapper) {
        return std::string(wrapper) + "<" + type + ", " + type + ", " + result + ", " + name + ">";
    };
    add<Binary<T, F>>(to, wrapped("BinaryFunctor"));
    add<FirstBound<T, F>>(to, wrapped("AUnaryFunctor"));
    add<SecondBound<T, F>>(to, wrapped("BUnaryFunctor"));
}

template <class T>
void add_type(Functions* to) {
    const std::string type = type_name<T>(), of_type = "<" + type + ">";
    add<Fill<T>>(to, "FillFunctor" + of_type);
    add<Copy<T>>(to, "direct_copy_kernel_cuda(" + type + ")");
    add<Add<T>>(to, "CUDAFunctor_add" + of_type);
    add<AddToOperand<T>>(to, "CUDAFunctorOnSelf_add" + of_type);
    add<AddOperand<T>>(to, "CUDAFunctorOnOther_add" + of_type);
    add<Compare<T>>(to, "CompareFunctor" + of_type);
    add<SecondBound<T, Compare<T>>>(to, "compare_scalar_kernel" + of_type + "(" + type + ")");
    add_wrapped<T, CompareEqual<T>>(to, "bool", "CompareEqFunctor" + of_type);
    add_wrapped<T, Multiply<T>>(to, type, "MulFunctor" + of_type);
    const std::string two = "(" + type + ", " + type + ")";
    add_wrapped<T, Largest<T>>(to, type, "maximum_kernel_cuda" + two);
    add_wrapped<T, Smallest<T>>(to, type, "minimum_kernel_cuda" + two);
    add_wrapped<T, Both<T>>(to, "bool", "logical_and_kernel_cuda" + two);
    add_wrapped<T, Either<T>>(to, "bool", "logical_or_kernel_cuda" + two);
    add<Neither<T>>(to, "logical_not_kernel_cuda(" + type + ")");
#define ADD(other, name, number) \
    add<Copy<T, other>>(to, "converting_copy_kernel_cuda<" + type + ", " + name + ">(" + type + ")");
    SIMGPU_SCALARS(ADD)
#undef ADD
}

const Functions& functions() {
    static const Functions all = [] {
        Functions made;
#define ADD(type, name, number) add_type<type>(&made);
        SIMGPU_SCALARS(ADD)
#undef ADD
        add_wrapped<bool, Both<bool>>(&made, "bool", "BitwiseAndFunctor<bool>");
        add_wrapped<bool, Either<bool>>(&made, "bool", "BitwiseOrFunctor<bool>");
        add<Neither<bool>>(&made, "bitwise_not_kernel_cuda(bool)");
        return made;
    }();
    return all;
}

// The function's type, in short: without namespaces, and of a lambda the function that it is in and its parameters.
std::string shortened(std::string text) {
    for (const char* part : {"at::native::", "(anonymous namespace)::", "binary_internal::"}) {
        for (size_t at = text.find(part); at != text.npos; at = text.find(part)) {
            text.erase(at, std::strlen(part));
        }
    }
    for (size_t at = text.find(" >"); at != text.npos; at = text.find(" >")) {
        text.erase(at, 1);
    }
    const size_t lambda = text.rfind("{lambda(");
    if (lambda != text.npos && text.find('(') < lambda) {
        const size_t parameters = text.find('(', lambda), end = text.find(")#", parameters);
        return text.substr(0, text.find('(')) + text.substr(parameters, end - parameters) + ")" +
               text.substr(text.find('}', end) + 1);
    }
    return text;
}

bool choose(const std::string& function, const SimgpuKernel* Forms::*form, SimgpuKernel* kernel) {
    const auto found = functions().find(shortened(function));
    if (found == functions().end()) {
        return false;
    }
    const SimgpuKernel& chosen = *(found->second.*form);
    kernel->body = chosen.body;
    kernel->arg_count = chosen.arg_count;
    std::memcpy(kernel->arg_bytes, chosen.arg_bytes, sizeof(kernel->arg_bytes));
    return true;
}

}  // namespace

bool find_elementwise(const TemplateName& name, SimgpuKernel* kernel) {
    const auto& arguments = name.arguments;
    if (name.name == "vectorized_elementwise_kernel" && arguments.size() >= 3) {
        return choose(arguments[1], &Forms::contiguous, kernel);
    }
    if (name.name == "unrolled_elementwise_kernel" && arguments.size() == 7) {
        if (parse(arguments[3]).name != "TrivialOffsetCalculator" ||
            parse(arguments[4]).name != "TrivialOffsetCalculator") {
            return false;
        }
        const bool converts = parse(arguments[5]).name == "LoadWithCast";
        return choose(arguments[0], converts ? &Forms::converting : &Forms::contiguous, kernel);
    }
    if (name.name == "elementwise_kernel" && arguments.size() == 3) {
        const TemplateName launcher = parse(arguments[2]);  // gpu_kernel_impl<F>(...)::{lambda(int)#1}
        if (launcher.arguments.size() == 1 && launcher.name == "gpu_kernel_impl_nocast") {
            return choose(launcher.arguments[0], &Forms::strided, kernel);
        }
        if (launcher.arguments.size() == 1 && launcher.name == "gpu_kernel_impl") {
            return choose(launcher.arguments[0], &Forms::strided_converting, kernel);
        }
    }
    return false;
}

}  // namespace simgpu::foreign
