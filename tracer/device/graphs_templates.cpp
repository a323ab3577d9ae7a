#include "graphs_templates.h"

#include <string.h>

#include "base/map_private.h"

namespace titan::tracer {

CapturedCalls* CapturedLists::take(uint64_t calls) {
    uint32_t size_class = kMinClass;
    while (size_class < kClasses && (uint64_t{1} << size_class) - 1 < calls) {
        ++size_class;
    }
    if (size_class == kClasses) {
        return nullptr;
    }
    CapturedCalls* list = free_[size_class];
    if (list != nullptr) {
        free_[size_class] = list->next_free;
    } else {
        if (arena_ == nullptr) {
            arena_ = map_private<char>(kArenaBytes);
            if (arena_ == nullptr) {
                return nullptr;
            }
        }
        if (kArenaBytes - used_bytes_ < bytes_of(size_class)) {
            return nullptr;
        }
        list = reinterpret_cast<CapturedCalls*>(arena_ + used_bytes_);
        used_bytes_ += bytes_of(size_class);
        list->size_class = size_class;
        list->capacity = (1u << size_class) - 1;
    }
    list->references = 1;
    list->groups = 0;
    list->has_nodes = false;
    list->count.store(0, std::memory_order_relaxed);
    return list;
}

CapturedCalls* CapturedLists::append(CapturedCalls* list, const CapturedCall* calls, uint32_t more) {
    const uint32_t count = list != nullptr ? list->count.load(std::memory_order_relaxed) : 0;
    CapturedCalls* target = list;
    if (list == nullptr || list->references > 1 || list->capacity - count < more) {
        target = take(uint64_t{count} + more);
        if (target != nullptr && list != nullptr) {
            memcpy(target->calls(), list->calls(), count * sizeof(CapturedCall));
            target->groups = list->groups;
            target->has_nodes = list->has_nodes;
        }
    }
    if (target != nullptr) {
        if (more > 0) {
            memcpy(target->calls() + count, calls, more * sizeof(CapturedCall));
        }
        target->count.store(count + more, std::memory_order_relaxed);
    }
    if (target != list) {
        drop(list);
    }
    return target;
}

void CapturedLists::drop(CapturedCalls* list) {
    if (list == nullptr || --list->references > 0) {
        return;
    }
    list->next_free = free_[list->size_class];
    free_[list->size_class] = list;
}

}  // namespace titan::tracer
