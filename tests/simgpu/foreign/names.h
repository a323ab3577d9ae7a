// Names of kernels, taken apart: at::native::reduce_kernel<512, 1, R>.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace simgpu::foreign {

struct TemplateName {
    std::string name;  // without namespaces
    std::vector<std::string> arguments;
};

// Of what the demangler prints: "void a::b<c, d>(e)" or "a::b<c, d>". No arguments where it is no template.
TemplateName parse(std::string_view demangled);

// As the demangler calls them, and as c10::ScalarType numbers them.
#define SIMGPU_SCALARS(X)          \
    X(uint8_t, "unsigned char", 0) \
    X(int8_t, "signed char", 1)    \
    X(int16_t, "short", 2)         \
    X(int32_t, "int", 3)           \
    X(int64_t, "long", 4)          \
    X(float, "float", 6)           \
    X(double, "double", 7)         \
    X(bool, "bool", 11)

template <class T>
std::string type_name();
#define NAME(type, name, number)           \
    template <>                            \
    inline std::string type_name<type>() { \
        return name;                       \
    }
SIMGPU_SCALARS(NAME)
#undef NAME

}  // namespace simgpu::foreign
