/* An NVTX injection library: writes what it is told to the file in SIMGPU_NVTX_LOG. */
#define _GNU_SOURCE
#include <nvtx3/nvToolsExt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(const char* kind, const char* text) {
    FILE* file = fopen(getenv("SIMGPU_NVTX_LOG"), "a");
    if (file) {
        fprintf(file, "%s %s\n", kind, text ? text : "-");
        fclose(file);
    }
}

static int push(const char* text) {
    say("push", text);
    return 0;
}
static int pop(void) {
    say("pop", "");
    return 0;
}
static void mark(const char* text) { say("mark", text); }
static nvtxDomainHandle_t create(const char* name) { return (nvtxDomainHandle_t)strdup(name); }
static nvtxStringHandle_t keep(nvtxDomainHandle_t domain, const char* text) {
    char both[128];
    snprintf(both, sizeof both, "%s:%s", (const char*)domain, text);
    return (nvtxStringHandle_t)strdup(both);
}
static int push_in(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
    (void)domain;
    say("push", (const char*)attributes->message.registered);
    return 0;
}
static int pop_in(nvtxDomainHandle_t domain) {
    (void)domain;
    return pop();
}

#define EXPORT __attribute__((visibility("default")))
EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);
EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
    const NvtxExportTableCallbacks* callbacks = (const NvtxExportTableCallbacks*)get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable core, core2;
    unsigned core_size, core2_size;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &core_size) ||
        !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &core2, &core2_size)) {
        return 0;
    }
    *core[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *core[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    *core[NVTX_CBID_CORE_MarkA] = (NvtxFunctionPointer)mark;
    *core2[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
    *core2[NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer)keep;
    *core2[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push_in;
    *core2[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop_in;
    return 1;
}
