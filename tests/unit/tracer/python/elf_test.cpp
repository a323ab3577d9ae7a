// Memory, maps and ELF images of this very process.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/elf_image.h"
#include "base/maps.h"
#include "fake_memory.h"
#include "runtime.h"

using namespace titan;
using namespace titan::tracer::python;

namespace {

#if defined(SYS_open)
constexpr uint32_t kOldOpen = SYS_open;
#else
constexpr uint32_t kOldOpen = SYS_openat;  // aarch64 has no other
#endif

// Refuses system calls with EPERM, as a container's seccomp filter does.
void refuse(std::initializer_list<uint32_t> calls) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    for (const uint32_t call : calls) {
        sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        sock_fprog program{4, code};
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
    }
}

template <class Body>
int in_child(Body body) {
    const pid_t child = fork();
    if (child == 0) {
        _exit(body());
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("memory is read up to where it ends, and errno is kept") {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    char* const pages =
        static_cast<char*>(mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(pages, 'a', 2 * page);
    munmap(pages + 2 * page, page);
    Memory memory;
    REQUIRE(open_memory(getpid(), memory) == 0);
    char into[64] = {};
    const auto end = reinterpret_cast<uint64_t>(pages + 2 * page);
    errno = 77;
    CHECK(memory.read_some(memory, end - 10, into, sizeof(into)) == 10);
    CHECK(memory.read_some(memory, end - page - 10, into, sizeof(into)) == sizeof(into));
    CHECK_FALSE(memory.read(end - 10, into, 11));
    CHECK(memory.read(end - 10, into, 10));
    CHECK_FALSE(memory.read(0, into, 1));
    CHECK_FALSE(memory.read(~uint64_t{0} - 3, into, 8));
    CHECK_FALSE(memory.read(uint64_t{1} << 63, into, 8));
    CHECK(errno == 77);

    pages[page + 1] = 'b';
    PageCache cache(memory);
    const Memory cached = cache.memory();
    CHECK(cached.read_some(cached, end - page - 10, into, sizeof(into)) == sizeof(into));
    CHECK(std::string(into, 13) == "aaaaaaaaaaaba");
    CHECK(cached.read_some(cached, end - 10, into, sizeof(into)) == 10);
    pages[page + 1] = 'c';
    char byte = 0;
    CHECK(cached.get(end - page + 1, byte));
    CHECK(byte == 'b');
    cache.forget();
    CHECK(cached.get(end - page + 1, byte));
    CHECK(byte == 'c');
    CHECK_FALSE(cached.read(0, into, 1));
    CHECK_FALSE(cached.read(~uint64_t{0} - 3, into, 8));
    close_memory(memory);
    munmap(pages, 2 * page);
}

TEST_CASE("memory that a thread opened is read by others when that thread has ended") {
    static const char text[] = "here";
    Memory memory;
    std::thread([&memory] { REQUIRE(open_memory(getpid(), memory) == 0); }).join();
    CHECK(memory.pid == getpid());
    CHECK(memory.same_text(reinterpret_cast<uint64_t>(text), "here"));
    close_memory(memory);
}

TEST_CASE("where process_vm_readv is refused, /proc/PID/mem serves; where both are, it is said") {
    static const char text[] = "here";
    CHECK(in_child([] {
              refuse({SYS_process_vm_readv});
              Memory memory;
              char into[sizeof(text)];
              const bool read = open_memory(getpid(), memory) == 0 && memory.fd >= 0 &&
                                memory.read(reinterpret_cast<uint64_t>(text), into, sizeof(into)) &&
                                std::memcmp(into, text, sizeof(into)) == 0 && !memory.read(0, into, 1);
              close_memory(memory);
              return read ? 0 : 1;
          }) == 0);
    CHECK(in_child([] {
              refuse({SYS_process_vm_readv, SYS_openat, kOldOpen});
              Memory memory;
              return open_memory(getpid(), memory) == EPERM ? 0 : 1;
          }) == 0);
}

TEST_CASE("maps come whole through a small buffer, and lines that are too long are left out") {
    for (const size_t room_bytes : {512u, 8192u}) {
        char room[8192];
        MapsReader maps(getpid(), room, room_bytes);
        CHECK(maps.error() == 0);
        Mapping mapping;
        bool ours = false;
        size_t count = 0;
        for (uint64_t before = 0; maps.next(mapping); before = mapping.end, count++) {
            CHECK(mapping.start >= before);
            CHECK(mapping.end > mapping.start);
            const auto here = reinterpret_cast<uint64_t>(&in_child<int (*)()>);
            ours = ours || (here >= mapping.start && here < mapping.end &&
                            std::string(mapping.path).find("unit_tracer_python") != std::string::npos);
        }
        CHECK(ours);
        CHECK(count > 10);
    }
    char room[16];
    MapsReader tiny(getpid(), room, sizeof(room));
    Mapping mapping;
    CHECK_FALSE(tiny.next(mapping));
    MapsReader nobody(1 << 30, room, sizeof(room));
    CHECK(nobody.error() != 0);
    CHECK_FALSE(nobody.next(mapping));
}

TEST_CASE("exported symbols of a loaded library are found where the loader finds them") {
    void* const version_at = dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
    Dl_info info;
    REQUIRE(dladdr(version_at, &info) != 0);
    Memory memory;
    REQUIRE(open_memory(getpid(), memory) == 0);
    ElfImage image;
    REQUIRE(open_image(memory, reinterpret_cast<uint64_t>(info.dli_fbase), image));
    CHECK(find_symbol(memory, image, "gnu_get_libc_version") == reinterpret_cast<uint64_t>(version_at));
    CHECK(find_symbol(memory, image, "environ") != 0);
    CHECK(find_symbol(memory, image, "no_such_symbol_anywhere") == 0);
    CHECK(find_symbol(memory, image, "") == 0);
    CHECK_FALSE(open_image(memory, reinterpret_cast<uint64_t>(info.dli_fbase) + 4096, image));
    CHECK_FALSE(open_image(memory, 0, image));
    close_memory(memory);
}

TEST_CASE("a damaged image costs bounded time") {
    // The kernel's own image is small and whole in memory, and its tables hold offsets: a copy of it is an image, too.
#if defined(__aarch64__)
    constexpr const char* kSymbol = "__kernel_clock_gettime";
#else
    constexpr const char* kSymbol = "__vdso_clock_gettime";
#endif
    const uint64_t image_of_kernel = getauxval(AT_SYSINFO_EHDR);
    if (image_of_kernel == 0) {
        MESSAGE("skipped: the kernel gives no image (qemu-user)");
        return;
    }
    Memory memory;
    REQUIRE(open_memory(getpid(), memory) == 0);
    std::vector<char> whole(8192);
    whole.resize(memory.read_some(memory, image_of_kernel, whole.data(), whole.size()));
    close_memory(memory);
    FakeMemory fake;
    const uint64_t base = fake.take(whole.size());
    const auto look = [&] {
        ElfImage image;
        fake.reads = 0;
        return open_image(fake.reader(), base, image) ? find_symbol(fake.reader(), image, kSymbol) : 0;
    };
    fake.put(base, whole.data(), whole.size());
    REQUIRE(look() != 0);
    std::mt19937_64 random(5);
    for (int round = 0; round < 20000; ++round) {
        fake.put(base, whole.data(), whole.size());
        for (uint64_t damage = random() % 8 + 1; damage > 0; damage--) {
            // Most of it where the tables lie.
            const uint64_t at = base + random() % (random() % 2 == 0 ? 1024 : whole.size() - 8);
            fake.set(at, random() % 2 == 0 ? random() : random() % 65536);
        }
        look();
        REQUIRE(fake.reads < 20000);
    }
}

TEST_CASE("a process without Python says so") {
    Memory memory;
    REQUIRE(open_memory(getpid(), memory) == 0);
    char room[kFindRoomBytes], reason[kReasonBytes];
    Runtime runtime;
    CHECK(find_runtime(memory, room, runtime, reason) == Search::kNoPython);
    CHECK(std::string(reason) == "no Python in this process");
    close_memory(memory);
}
