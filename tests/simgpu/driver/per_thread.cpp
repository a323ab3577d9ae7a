// Driver API: the entry points that end in _ptsz and _ptds.
#include "objects.h"

// The declaration comes from the plain form's, so that the row cannot differ from NVIDIA's header.
#define PER_THREAD(name, suffix, parameters, arguments)                               \
    extern "C" __attribute__((visibility("default"))) decltype(name) name##_##suffix; \
    CUresult name##_##suffix parameters {                                             \
        const simgpu::PerThreadStreams scope;                                         \
        return name arguments;                                                        \
    }
#include "per_thread.def"
#undef PER_THREAD
