/* A program of another libc that a recorded job starts (built by musl-gcc: glibc's headers do not fit). It prints what
   its libc does, by all the functions that the preload has, too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int ncclCommInitAll(void** communicators, int devices, const int* list); /* programs/musl_library.c */
extern char** environ;

static const char* self;
static volatile sig_atomic_t arrived = 0;
static void note(int number) { arrived += number == SIGUSR1 ? 1 : 100; }
static void note_with_details(int number, siginfo_t* details, void* context) {
    arrived += number == SIGUSR1 && details->si_pid == getpid() && context != NULL ? 10 : 100;
}

static int signals(void) {
    struct sigaction action = {.sa_sigaction = note_with_details, .sa_flags = SA_SIGINFO}, old;
    memset(&old, 1, sizeof old);
    printf("signal: %d", signal(SIGUSR1, note) == SIG_DFL);
    raise(SIGUSR1);
    printf(", sigaction: %d", sigaction(SIGUSR1, &action, &old));
    printf(" %d %d", old.sa_handler == note, (old.sa_flags & SA_RESTART) != 0);
    raise(SIGUSR1);
    errno = 0;
    printf(", none: %d", sigaction(65, &action, NULL));
    printf(" %d", errno == EINVAL);
    printf(", sigset: %d", sigset(SIGUSR1, SIG_HOLD) != SIG_ERR);
    printf(", sigignore: %d", sigignore(SIGUSR2));
    raise(SIGUSR2);
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536}, before;
    printf(", sigaltstack: %d", sigaltstack(&stack, NULL));
    printf(" %d", sigaltstack(NULL, &before) == 0 && before.ss_sp == stack.ss_sp);
    printf(", arrived %d\n", (int)arrived);
    return 3;
}

static jmp_buf place;
static sigjmp_buf place_with_mask;
static void jump_out(int number) { siglongjmp(place_with_mask, number); }

static int jumps(void) {
    volatile int round = 0;
    const int value = setjmp(place);
    printf("longjmp: %d\n", value);
    if (++round < 3) {
        longjmp(place, round);
    }
    signal(SIGUSR1, jump_out);
    if (sigsetjmp(place_with_mask, 1) == 0) {
        raise(SIGUSR1);
    }
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    printf("siglongjmp: blocked %d\n", sigismember(&blocked, SIGUSR1));
    if (_setjmp(place) == 0) {
        _longjmp(place, 1);
    }
    return 4;
}

static void* count(void* counter) {
    for (int i = 0; i < 1000; ++i) {
        __atomic_fetch_add((int*)counter, 1, __ATOMIC_RELAXED);
    }
    return counter;
}

static int threads(void) {
    int counter = 0;
    pthread_t all[16];
    for (int i = 0; i < 16; ++i) {
        pthread_create(&all[i], NULL, count, &counter);
    }
    for (int i = 0; i < 16; ++i) {
        pthread_join(all[i], NULL);
    }
    printf("counted %d\n", counter);
    return 5;
}

static int status_of(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int become(const char* way) {
    char* argv[] = {(char*)self, "as", (char*)way, NULL};
    char* const preload = getenv("LD_PRELOAD");
    char* other[] = {"BECOME=yes", preload != NULL ? preload - strlen("LD_PRELOAD=") : NULL, NULL};
    if (strcmp(way, "execve") == 0)
        execve(self, argv, other);
    if (strcmp(way, "execv") == 0)
        execv(self, argv);
    if (strcmp(way, "execvp") == 0)
        execvp(self, argv);
    if (strcmp(way, "execvpe") == 0)
        execvpe(self, argv, other);
    if (strcmp(way, "fexecve") == 0)
        fexecve(open(self, O_RDONLY), argv, other);
    if (strcmp(way, "execl") == 0)
        execl(self, self, "as", way, (char*)NULL);
    if (strcmp(way, "execlp") == 0)
        execlp(self, self, "as", way, (char*)NULL);
    if (strcmp(way, "execle") == 0)
        execle(self, self, "as", way, (char*)NULL, other);
    return 1;
}

static int processes(void) {
    static const char* const ways[] = {"execve", "execv", "execvp", "execvpe", "fexecve", "execl", "execlp", "execle"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; ++i) {
        fflush(stdout);
        const pid_t child = i % 2 == 0 ? fork() : vfork();
        if (child == 0) {
            _exit(become(ways[i]));
        }
        printf("%s: %d\n", ways[i], status_of(child));
    }
    errno = 0;
    printf("not there: %d", execlp("no such program", "none", (char*)NULL));
    printf(" %d\n", errno == ENOENT);
    char* argv[] = {(char*)self, "as", "posix_spawn", NULL};
    pid_t child = 0;
    fflush(stdout);
    printf("posix_spawn: %d", posix_spawn(&child, self, NULL, NULL, argv, environ));
    printf(" %d\n", status_of(child));
    fflush(stdout);
    printf("system: %d\n", WEXITSTATUS(system("exit 9")));
    return 6;
}

static int libraries(const char* library) {
    void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    int (*const answer)(void) = (int (*)(void))dlsym(handle, "musl_answer");
    int (*const version)(int*) = (int (*)(int*))dlsym(handle, "ncclGetVersion");
    int number = 0;
    printf("dlsym: %d, ", answer != NULL ? answer() : -1);
    printf("%d", version != NULL ? version(&number) : -1);
    printf(" %d\n", number);
    printf("missing: %d, ", dlsym(handle, "not_there") == NULL);
    printf("%s\n", strstr(dlerror(), "not_there") != NULL ? "told" : "not told");
    printf("default: %d, next: %d\n", dlsym(RTLD_DEFAULT, "printf") == (void*)printf,
           dlsym(RTLD_NEXT, "printf") == (void*)printf);
    printf("dlclose: %d", dlclose(handle));
    printf(" %d\n", dlclose(dlopen(NULL, RTLD_NOW)));
    return 7;
}

/* What begins a record in a program of glibc. */
static int calls(void) {
    void* communicator = NULL;
    void (*const step)(long) = (void (*)(long))dlsym(RTLD_DEFAULT, "titan_step");
    if (step != NULL) {
        step(1);
    }
    printf("ncclCommInitAll: %d", ncclCommInitAll(&communicator, 1, NULL));
    printf(" %d\n", communicator != NULL);
    return 8;
}

static void last_words(void) { (void)!write(1, "handler\n", 8); }

static int end(const char* way) {
    puts(way);
    fflush(stdout);
    atexit(last_words);
    at_quick_exit(last_words);
    if (strcmp(way, "_exit") == 0)
        _exit(10);
    if (strcmp(way, "_Exit") == 0)
        _Exit(11);
    if (strcmp(way, "quick_exit") == 0)
        quick_exit(12);
    if (strcmp(way, "abort") == 0)
        abort();
    if (strcmp(way, "SIGTERM") == 0)
        raise(SIGTERM);
    exit(13);
}

int main(int argc, char** argv) {
    self = argv[0];
    const char* const scenario = argv[1];
    const char* const more = argc > 2 ? argv[2] : "";
    if (strcmp(scenario, "signals") == 0)
        return signals();
    if (strcmp(scenario, "jumps") == 0)
        return jumps();
    if (strcmp(scenario, "threads") == 0)
        return threads();
    if (strcmp(scenario, "processes") == 0)
        return processes();
    if (strcmp(scenario, "libraries") == 0)
        return libraries(more);
    if (strcmp(scenario, "calls") == 0)
        return calls();
    if (strcmp(scenario, "end") == 0)
        return end(more);
    printf("%s, %s\n", more, getenv("BECOME") != NULL ? "another environment" : "the same environment");
    return 2;
}
