/* `descriptors PORT ATP_PORT` binds a mapped UDP port, copies and closes the descriptor in all
 * ways, and watches whether the library still receives at its own port. Prints "as expected". */
#include "ports.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/inotify.h>
#include <time.h>

/* The library looks at its process ten times a second. To open the file would take the lowest free
 * number, which is the program's next one. Other processes look as well, less often. */
static int opens_no_file(void) {
    char events[4096];
    int watcher = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), opened, left = 100;
    check(inotify_add_watch(watcher, "/proc/self/stat", IN_OPEN) >= 0, "inotify_add_watch");
    opened = open("/proc/self/stat", O_RDONLY);
    check(opened >= 0 && read(watcher, events, sizeof events) > 0, "no event of an open file");
    do {
        while (read(watcher, events, sizeof events) > 0) {
        }
        usleep(300000);
    } while (read(watcher, events, sizeof events) > 0 && left-- > 0);
    close(opened);
    close(watcher);
    return left > 0;
}

int main(int argc, char **argv) {
    check(argc == 3, "descriptors PORT ATP_PORT");
    alarm(LIMIT_S);
    int port = atoi(argv[1]), atp = atoi(argv[2]);
    check(is_free(atp), "a port before");

    errno = 77;
    int fd = try_bind(SOCK_DGRAM, port);
    check(fd >= 0 && errno == 77, "errno of a call that does well");
    int of_tcp = try_bind(SOCK_STREAM, port);
    check(of_tcp >= 0 && errno == 77, "errno of a call that isn't the library's");
    close(of_tcp);
    check(!is_free(atp), "the library receives");

    check(opens_no_file(), "the library opens a file again and again");

    /* A copy keeps the receiver, and a descriptor that is put in its place ends it. */
    int copy = dup(fd), other = socket(AF_INET, SOCK_DGRAM, 0);
    close(fd);
    usleep(300000);
    check(!is_free(atp), "the library receives for a copy");
    check(dup2(other, copy) == copy, "dup2 closes a descriptor");
    wait_until_free(atp);

    fd = try_bind(SOCK_DGRAM, port);
    check(fd >= 0 && !is_free(atp), "the library receives again");
    check(close_range(fd, fd, 0) == 0, "close_range");
    wait_until_free(atp);

    /* A signal that the program has blocked goes to none of the library's threads. */
    fd = try_bind(SOCK_DGRAM, port);
    check(fd >= 0 && !is_free(atp), "the library receives once more");
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), SIGUSR1);
    usleep(100000);
    struct timespec limit = {5, 0};
    check(sigtimedwait(&set, NULL, &limit) == SIGUSR1, "the signal");
    puts("as expected");
    return 0;
}
