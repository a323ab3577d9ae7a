// Programs that use NCCL, and then leave the namespaces that they began in: containers made by hand, sandboxes,
// mpirun's helpers.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <cerrno>

#include "client.h"

using client::say;

namespace {

void allowed(int result, const char* what) {
    if (result != 0) {
        say("not allowed: %s: %s", what, std::strerror(errno));
        _exit(77);
    }
}

// Uses NCCL, moves, is looked at, uses NCCL again, ends.
template <typename Move>
int work_and(Move move) {
    // A path may lead nowhere after the move; a descriptor leads where it did.
    const int meeting_place = open(std::getenv("E2E_MEET"), O_PATH | O_CLOEXEC);
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    move();
    r.reduce_and_sync();
    say("ready");
    while (faccessat(meeting_place, "go", F_OK, 0) != 0) {
        usleep(5000);
    }
    r.reduce_and_sync();
    r.leave();
    say("finished");
    return 0;
}

void write_file(const char* path, const char* text) {
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    REQUIRE(fd >= 0 && write(fd, text, std::strlen(text)) == static_cast<ssize_t>(std::strlen(text)));
    close(fd);
}

// The ring's and the dumps' directories are hidden by empty ones, as where an agent pivots into an image.
int mount_namespace() {
    return work_and([] {
        allowed(unshare(CLONE_NEWNS), "unshare of mounts");
        allowed(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "private mounts");
        allowed(mount("none", "/dev/shm", "tmpfs", 0, nullptr), "tmpfs");
        allowed(mount("none", "/tmp", "tmpfs", 0, nullptr), "tmpfs");
    });
}

int no_proc() {
    return work_and([] {
        allowed(unshare(CLONE_NEWNS), "unshare of mounts");
        allowed(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "private mounts");
        allowed(mount("none", "/proc", "tmpfs", 0, nullptr), "tmpfs");
    });
}

int change_root() {
    return work_and([] {
        const std::string empty = client::meeting("empty");
        REQUIRE(mkdir(empty.c_str(), 0755) == 0);
        allowed(chroot(empty.c_str()), "chroot");
        REQUIRE(chdir("/") == 0);
    });
}

// Only a process with one thread may do this: before CUDA has threads of its own.
void leave_users() { allowed(unshare(CLONE_NEWUSER), "unshare of users"); }

int user_namespace() {
    const uid_t uid = geteuid();
    leave_users();
    write_file("/proc/self/uid_map", ("0 " + std::to_string(uid) + " 1").c_str());
    return work_and([] {});
}

int unmapped_user() {  // nobody, until somebody writes a map, which nobody does
    leave_users();
    return work_and([] { say("I am %s", geteuid() == 65534 ? "nobody" : "somebody"); });
}

// It asks for the version and the devices first, as a launcher does that decides what to start.
int user_after_questions() {
    int version = 0;
    NCCL(ncclGetVersion(&version));
    const int result = unshare(CLONE_NEWUSER);
    say("unshare of users: %s", result == 0 ? "done" : std::strerror(errno));
    return work_and([] {});
}

int other_namespaces() {
    return work_and([] { allowed(unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP), "unshare"); });
}

int files_and_semaphores() {
    return work_and([] { allowed(unshare(CLONE_FILES | CLONE_FS | CLONE_SYSVSEM), "unshare"); });
}

int enter_namespaces_of_another() {
    return work_and([] {
        int ends[2];
        REQUIRE(pipe(ends) == 0);
        const pid_t other = fork();
        if (other == 0) {
            allowed(unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS), "unshare");
            REQUIRE(write(ends[1], "x", 1) == 1);
            pause();
        }
        char byte;
        REQUIRE(read(ends[0], &byte, 1) == 1);
        for (const char* kind : {"net", "ipc", "uts"}) {
            const int fd = open(("/proc/" + std::to_string(other) + "/ns/" + kind).c_str(), O_RDONLY | O_CLOEXEC);
            REQUIRE(fd >= 0);
            allowed(setns(fd, 0), "setns");
            close(fd);
        }
        kill(other, SIGKILL);
        waitpid(other, nullptr, 0);
    });
}

// The children of this process live in a namespace of their own, where the first one is number 1. It is the rank then.
int pid_namespace(bool parent_first) {
    if (parent_first) {
        client::Rank r;
        r.join();
        r.reduce_and_sync();
        r.leave();
    }
    allowed(unshare(CLONE_NEWPID), "unshare of pids");
    const pid_t child = fork();
    if (child == 0) {
        const int status = work_and([] { say("I am %d", getpid()); });
        _exit(status);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    say("child ended with %x", status);
    return 0;
}
int child_in_pids() { return pid_namespace(false); }
int rank_and_child_in_pids() { return pid_namespace(true); }

int time_namespace() {
    allowed(unshare(0x80), "unshare of time");  // CLONE_NEWTIME
    write_file("/proc/self/timens_offsets", "monotonic 100000 0\nboottime 100000 0\n");
    const pid_t child = fork();  // lives in the new one
    if (child == 0) {
        const int status = work_and([] {});
        _exit(status);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    say("child ended with %x", status);
    return 0;
}

// A process with one thread may enter a time namespace itself: then its clock jumps between two calls. CUDA's threads
// forbid it.
int enter_time_namespace() {
    return work_and([] {
        int ends[2];
        REQUIRE(pipe(ends) == 0);
        const pid_t other = fork();
        if (other == 0) {
            allowed(unshare(0x80), "unshare of time");
            write_file("/proc/self/timens_offsets", "monotonic 100000 0\nboottime 100000 0\n");
            REQUIRE(write(ends[1], "x", 1) == 1);
            pause();
        }
        char byte;
        REQUIRE(read(ends[0], &byte, 1) == 1);
        const int fd = open(("/proc/" + std::to_string(other) + "/ns/time_for_children").c_str(), O_RDONLY | O_CLOEXEC);
        REQUIRE(fd >= 0);
        const int entered = setns(fd, 0);
        say("setns of time: %s", entered == 0 ? "done" : std::strerror(errno));
        kill(other, SIGKILL);
        waitpid(other, nullptr, 0);
    });
}

constexpr client::Scenario kScenarios[] = {{"mounts", mount_namespace},
                                           {"no_proc", no_proc},
                                           {"chroot", change_root},
                                           {"user", user_namespace},
                                           {"unmapped_user", unmapped_user},
                                           {"user_later", user_after_questions},
                                           {"others", other_namespaces},
                                           {"files", files_and_semaphores},
                                           {"setns", enter_namespaces_of_another},
                                           {"pids", child_in_pids},
                                           {"pids_after", rank_and_child_in_pids},
                                           {"time", time_namespace},
                                           {"setns_time", enter_time_namespace}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
