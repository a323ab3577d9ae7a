#include "fake_driver.h"

#include <algorithm>
#include <mutex>

#include "fixture.h"
#include "tracer/driver_api.h"

namespace titan::test {

FakeDriver fake;

FakeContext*& current_context() {
    thread_local FakeContext* current = &fake.first;
    return current;
}

namespace {

std::mutex lock;  // the observing thread queries events while the test lets the device run

FakeStream* stream_of(void* stream) { return static_cast<FakeStream*>(stream); }

// A stream's work must come while its own context is current.
int put(void* stream, const FakeWork& work) {
    const std::scoped_lock held(lock);
    if (stream_of(stream)->context != current_context()) {
        return 400;  // CUDA_ERROR_INVALID_HANDLE
    }
    stream_of(stream)->work.push_back(work);
    return 0;
}

// Where a real driver would read memory that is no event any more.
FakeEvent* living(void* event) {
    auto* const known = static_cast<FakeEvent*>(event);
    fake.uses_after_end += known->life != known->context->lives ? 1 : 0;
    return known;
}

int record(void* event, void* stream) {
    FakeEvent* recorded;
    {
        const std::scoped_lock held(lock);
        recorded = living(event);
        *recorded = FakeEvent{.recorded = true, .context = recorded->context, .life = recorded->life};
    }
    return put(stream, {.event = recorded});
}

int query(void* event) {
    const std::scoped_lock held(lock);
    return living(event)->reached ? tracer::kCudaSuccess : tracer::kCudaErrorNotReady;
}

int elapsed(float* milliseconds, void* from, void* to) {
    const std::scoped_lock held(lock);
    *milliseconds = static_cast<float>(living(to)->at_ms - living(from)->at_ms);
    return 0;
}

int is_capturing(void* stream, int* status) {
    const std::scoped_lock held(lock);
    *status = stream_of(stream)->graph != nullptr;
    return 0;
}

int capture_info(void* stream, int* status, uint64_t* id, void** graph, const void***, size_t*) {
    const std::scoped_lock held(lock);
    *status = stream_of(stream)->graph != nullptr;
    *id = stream_of(stream)->capture;
    *graph = stream_of(stream)->graph;
    return 0;
}

thread_local std::vector<FakeContext*> pushed;

bool find_fake(tracer::DriverApi& driver) {
    driver = {
        .driver_version = [](int* version) { return *version = 13000, 0; },
        .ctx_get_current = [](void** context) { return *context = current_context(), 0; },
        .ctx_set_current = [](void* context) { return current_context() = static_cast<FakeContext*>(context), 0; },
        .ctx_push_current =
            [](void* context) {
                pushed.push_back(current_context());
                current_context() = static_cast<FakeContext*>(context);
                return ++fake.pushes, 0;
            },
        .ctx_pop_current =
            [](void** context) {
                *context = current_context();
                current_context() = pushed.back();
                return pushed.pop_back(), 0;
            },
        .stream_get_ctx = [](void* stream, void** context) { return *context = stream_of(stream)->context, 0; },
        .stream_is_capturing = is_capturing,
        .exchange_capture_mode = [](int*) { return 0; },
        .event_create =
            [](void** event, unsigned) {
                const std::scoped_lock held(lock);
                *event = new FakeEvent{.context = current_context(), .life = current_context()->lives};
                return ++fake.events_made, 0;
            },
        .event_record = record,
        .event_query = query,
        .ctx_get_device = [](int* device) { return *device = current_context()->device, 0; },
        .device_get_pci_bus_id = nullptr,
        .primary_ctx_get_state = [](int, unsigned*, int* active) { return *active = fake.primary_active, 0; },
        .event_elapsed_time = elapsed,
        .stream_get_capture_info = capture_info,
        .stream_write_value64 =
            [](void* stream, uint64_t address, uint64_t value, unsigned) {
                return fake.refuse_writes_with != 0
                           ? fake.refuse_writes_with
                           : put(stream, {.word = reinterpret_cast<uint64_t*>(address), .value = value});
            },
        .mem_host_register =
            [](void* memory, size_t bytes, unsigned) {
                const std::scoped_lock held(lock);
                const auto begin = reinterpret_cast<uint64_t>(memory);
                fake.registered.push_back({begin, begin + bytes, current_context()});
                return ++fake.registrations, 0;
            },
        .mem_host_get_device_pointer =
            [](uint64_t* address, void* memory, unsigned) {
                *address = reinterpret_cast<uint64_t>(memory);
                return fake.refuse_addresses || !fake.is_registered(*address) ? 1 : 0;
            },
    };
    return true;
}

[[maybe_unused]] const bool installed = (find_driver = find_fake, true);

}  // namespace

void FakeDriver::end(FakeContext& context) {
    const std::scoped_lock held(lock);
    ++context.lives;
    std::erase_if(registered, [&](const FakeRegistration& one) { return one.context == &context; });
}

bool FakeDriver::is_registered(uint64_t address) const {
    return std::any_of(registered.begin(), registered.end(),
                       [&](const FakeRegistration& one) { return one.begin <= address && address < one.end; });
}

void FakeStream::begin_capture(void* into) {
    static uint64_t captures = 0;
    const std::scoped_lock held(lock);
    graph = into;
    capture = ++captures;
}

void FakeStream::end_capture() {
    const std::scoped_lock held(lock);
    graph = nullptr;
}

void FakeStream::run(size_t count) {
    const std::scoped_lock held(lock);
    for (; count > 0 && done < work.size(); --count, ++done) {
        fake.device_ms += 1;
        const FakeWork& next = work[done];
        if (next.event != nullptr) {
            next.event->reached = true;
            next.event->at_ms = fake.device_ms;
        } else {
            fake.uses_after_end += fake.is_registered(reinterpret_cast<uint64_t>(next.word)) ? 0 : 1;
            __atomic_store_n(next.word, next.value, __ATOMIC_RELEASE);
        }
    }
}

}  // namespace titan::test
