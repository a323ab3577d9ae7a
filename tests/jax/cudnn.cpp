// What XLA asks cuDNN before it compiles a program: whether it is there, and which version. A status is an int, 0
// success; convolutions and attention are not here.
#include <cstddef>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kMajor = 9, kMinor = 20;

}  // namespace

EXPORT int cudnnCreate(void** handle) {
    static int made;
    *handle = &made;
    return 0;
}

EXPORT int cudnnDestroy(void*) { return 0; }
EXPORT int cudnnSetStream(void*, void*) { return 0; }
EXPORT size_t cudnnGetVersion(void) { return kMajor * 10000 + kMinor * 100; }

// `property` is libraryPropertyType: major, minor, patch.
EXPORT int cudnnGetProperty(int property, int* value) {
    *value = property == 0 ? kMajor : property == 1 ? kMinor : 0;
    return 0;
}

EXPORT const char* cudnnGetErrorString(int) { return "the simulated node's cuDNN"; }
