/* Calls with which a process ends, or goes on as another program. */
#include "calls.h"
#include <sys/mman.h>
#include <sys/syscall.h>

static char *none[] = {NULL};

/* A child ends with this status, or is the program `true`. */
static int status_of(pid_t child) {
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void ends(void) {
    for (int is_capital = 0; is_capital < 2; is_capital++) {
        pid_t child = fork();
        if (child == 0) {
            /* The child has a stream of its own. */
            send_byte(new_client(1), 'e');
            if (is_capital) {
                _Exit(7);
            }
            _exit(7);
        }
        char byte;
        CHECK(status_of(child) == 7);
        CHECK(recv(server, &byte, 1, 0) == 1 && byte == 'e');
        child = vfork();
        if (child == 0) {
            _exit(8);
        }
        CHECK(status_of(child) == 8);
    }
    pid_t child = fork();
    if (child == 0) {
        quick_exit(9);
    }
    CHECK(status_of(child) == 9);
}

static void calls_the_kernel(void) {
    CHECK(syscall(SYS_getpid) == getpid());
    FAILS(syscall(SYS_close, -1), EBADF);
    /* The last argument comes over the stack. */
    void *page = (void *)syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && syscall(SYS_munmap, page, 4096) == 0);
    for (int is_vfork = 0; is_vfork < 2; is_vfork++) {
        pid_t child = is_vfork ? vfork() : fork();
        if (child == 0) {
            syscall(SYS_exit_group, 10);
        }
        CHECK(status_of(child) == 10);
    }
}

static void execute(int way) {
    char *arguments[] = {"sh", "-c", "exit $1$2", "sh", "1", "2", NULL}, *empty[] = {NULL};
    int shell = open("/bin/sh", O_RDONLY | O_CLOEXEC);
    switch (way) {
    case 0:
        execve("/bin/sh", arguments, empty);
        break;
    case 1:
        execv("/bin/sh", arguments);
        break;
    case 2:
        execvp("sh", arguments);
        break;
    case 3:
        execvpe("sh", arguments, empty);
        break;
    case 4:
        /* More arguments than registers. */
        execl("/bin/sh", "sh", "-c", "exit $1$2", "sh", "1", "2", "3", "4", (char *)NULL);
        break;
    case 5:
        execlp("sh", "sh", "-c", "exit $1$2", "sh", "1", "2", "3", "4", (char *)NULL);
        break;
    case 6:
        execle("/bin/sh", "sh", "-c", "exit $1$2", "sh", "1", "2", (char *)NULL, empty);
        break;
    case 7:
        execveat(shell, "", arguments, empty, AT_EMPTY_PATH);
        break;
    default:
        fexecve(shell, arguments, empty);
    }
    _exit(1);
}

static void executes(void) {
    for (int way = 0; way < 9; way++) {
        pid_t child = fork();
        if (child == 0) {
            execute(way);
        }
        CHECK(status_of(child) == 12);
        child = vfork();
        if (child == 0) {
            execute(way);
        }
        CHECK(status_of(child) == 12);
    }
    FAILS(execv("/none", none), ENOENT);
    FAILS(execl("/none", "none", (char *)NULL), ENOENT);
}

static void goes_into_background(void) {
    int tell[2];
    CHECK(pipe(tell) == 0);
    pid_t child = fork();
    if (child == 0) {
        pid_t own = getpid();
        CHECK(daemon(1, 1) == 0);
        char is_other = getpid() != own;
        CHECK(write(tell[1], &is_other, 1) == 1);
        _exit(0);
    }
    char is_other = 0;
    CHECK(status_of(child) == 0);
    CHECK(read(tell[0], &is_other, 1) == 1 && is_other == 1);
    close(tell[0]);
    close(tell[1]);
}

const struct named_case leaving_cases[] = {
    {"_exit _Exit", ends},
    {"execve execv execvp execvpe execl execlp execle execveat fexecve", executes},
    {"syscall", calls_the_kernel},
    {"daemon", goes_into_background},
    {NULL, NULL},
};
