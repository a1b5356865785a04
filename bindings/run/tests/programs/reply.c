/* `reply serve BYTES PORT` accepts a connection, reads a line of it, replies with so many bytes,
 * and ends at once. `reply ask PORT` sends a line, and reads the reply to its end. `reply shut
 * PORT` waits for the end of its input before, and shuts its connection down. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void check(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static char bytes[1 << 16];

static void serve(const struct sockaddr_in *at, long left) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(listener, (const struct sockaddr *)at, sizeof *at) == 0, "bind");
    check(listen(listener, 1) == 0, "listen");
    puts("listening");
    fflush(stdout);
    int fd = accept(listener, NULL, NULL);
    check(fd >= 0 && read(fd, bytes, sizeof bytes) == 5, "a line");
    while (left > 0) {
        ssize_t done = write(fd, bytes, left < (long)sizeof bytes ? left : (long)sizeof bytes);
        check(done > 0, "write");
        left -= done;
    }
    _exit(0);
}

int main(int argc, char **argv) {
    check(argc >= 3, "reply HOW [BYTES] PORT");
    /* A process that hangs is no success. */
    alarm(100);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[argc - 1]))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (strcmp(argv[1], "serve") == 0) {
        serve(&at, atol(argv[2]));
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(fd, (struct sockaddr *)&at, sizeof at) == 0, "connect");
    check(write(fd, "line\n", 5) == 5, "write");
    puts("asked");
    fflush(stdout);
    if (strcmp(argv[1], "shut") == 0) {
        while (read(STDIN_FILENO, bytes, sizeof bytes) > 0) {
        }
        check(shutdown(fd, SHUT_WR) == 0, "shutdown");
    }
    long total = 0;
    ssize_t got;
    while ((got = read(fd, bytes, sizeof bytes)) > 0) {
        total += got;
    }
    printf("%ld bytes, %s\n", total, got == 0 ? "end" : strerrorname_np(errno));
    return 0;
}
