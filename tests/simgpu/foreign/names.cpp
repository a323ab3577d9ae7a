#include "names.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "foreign.h"

namespace simgpu::foreign {

namespace {

constexpr std::string_view kOpening = "<({[", kClosing = ">)}]";

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && text.front() == ' ') {
        text.remove_prefix(1);
    }
    while (!text.empty() && text.back() == ' ') {
        text.remove_suffix(1);
    }
    return text;
}

// Behind the last "::" that is not within brackets.
std::string_view without_namespaces(std::string_view text) {
    int depth = 0;
    size_t begin = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        depth += kOpening.find(text[i]) != kOpening.npos;
        depth -= kClosing.find(text[i]) != kClosing.npos;
        if (depth == 0 && text.substr(i, 2) == "::") {
            begin = i + 2;
        }
    }
    return text.substr(begin);
}

}  // namespace

TemplateName parse(std::string_view text) {
    if (text.substr(0, 5) == "void ") {
        text.remove_prefix(5);
    }
    TemplateName result;
    const size_t opening = text.find('<');
    result.name = without_namespaces(text.substr(0, opening));
    int depth = 0;
    size_t begin = opening + 1;
    for (size_t i = opening; i < text.size(); ++i) {
        depth += kOpening.find(text[i]) != kOpening.npos;
        depth -= kClosing.find(text[i]) != kClosing.npos;
        if (depth == 0 || (depth == 1 && text[i] == ',')) {
            result.arguments.emplace_back(trimmed(text.substr(begin, i - begin)));
            begin = i + 1;
        }
        if (depth == 0) {
            break;
        }
    }
    return result;
}

SimgpuKernel find(const char* mangled) {
    SimgpuKernel kernel{mangled, nullptr, 0, {}};
    const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr),
                                                      std::free);
    if (text) {
        const TemplateName name = parse(text.get());
        find_elementwise(name, &kernel) || find_reduction(name, &kernel) || find_concatenation(name, &kernel);
    }
    return kernel;
}

}  // namespace simgpu::foreign
