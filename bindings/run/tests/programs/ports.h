/* Checks, and ports that are free or not. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* What a program waits for comes, on a busy machine too. It hangs if it waits for so long. */
#define LIMIT_S 300

static void check(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

/* A socket that is bound to a port of the loopback; -1 if another one is. */
static int try_bind(int type, int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, type, 0);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        check(errno == EADDRINUSE, "bind");
        close(fd);
        return -1;
    }
    return fd;
}

static int is_free(int port) {
    int fd = try_bind(SOCK_DGRAM, port);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

/* The program's alarm ends this too. */
static void wait_until_free(int port) {
    while (!is_free(port)) {
        usleep(20000);
    }
}
