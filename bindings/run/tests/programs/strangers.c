/* A server that strangers reach, and clients. Each may have 1,024 descriptors.
 *
 * - `strangers serve PORT` accepts connections, and sends each line back. The line "end" ends it,
 *   and the client.
 * - `strangers neglect PORT` accepts two connections, and reads the second one to its end after the
 *   first one has ended, whose lines it sends back. It prints the number of bytes.
 * - `strangers ask ADDRESS PORT` sends lines of its input, each once the one before it has come
 *   back, and prints them.
 * - `strangers receive PORT [late|step]` prints each datagram with its sender, and sends it back,
 *   until "end". With `late` it begins after a line of its input. With `step` it waits for a line
 *   before each datagram, until its input ends.
 * - `strangers send ADDRESS PORT [OWN]` sends lines of its input as datagrams, from the port OWN or
 *   another one, and prints what comes back.
 * - `strangers scatter PORT COUNT` sends a datagram to so many addresses of the loopback, and waits
 *   for the end of its input. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define DESCRIPTORS 1024

static void check(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

/* Sends back what has come. 0: the connection has ended. */
static int answer(int fd) {
    char bytes[4096];
    ssize_t got = read(fd, bytes, sizeof bytes);
    if (got == 4 && memcmp(bytes, "end\n", 4) == 0) {
        puts("end");
        exit(0);
    }
    if (got < 0) {
        puts("reset");
        fflush(stdout);
    }
    /* One line, or the lines of a connection that was injected into. */
    if (got > 0) {
        printf("read %.*s", (int)got, bytes);
        fflush(stdout);
    }
    return got > 0 && write(fd, bytes, got) == got;
}

static void serve(struct sockaddr_in at) {
    at.sin_addr.s_addr = htonl(INADDR_ANY);
    int on = 1;
    static struct pollfd all[DESCRIPTORS];
    all[0] = (struct pollfd){socket(AF_INET, SOCK_STREAM, 0), POLLIN, 0};
    check(setsockopt(all[0].fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0, "setsockopt");
    check(bind(all[0].fd, (const void *)&at, sizeof at) == 0, "bind");
    check(listen(all[0].fd, DESCRIPTORS) == 0, "listen");
    puts("listening");
    fflush(stdout);
    for (int count = 1;;) {
        check(poll(all, count, -1) > 0, "poll");
        for (int index = count - 1; index > 0; index--) {
            if (all[index].revents != 0 && !answer(all[index].fd)) {
                close(all[index].fd);
                all[index] = all[--count];
            }
        }
        if (all[0].revents != 0) {
            all[count] = (struct pollfd){accept(all[0].fd, NULL, NULL), POLLIN, 0};
            check(all[count].fd >= 0, "accept");
            count++;
        }
    }
}

static void neglect(struct sockaddr_in at) {
    static char bytes[65536];
    ssize_t got;
    long total = 0;
    at.sin_addr.s_addr = htonl(INADDR_ANY);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(listener, (const void *)&at, sizeof at) == 0 && listen(listener, 5) == 0, "listen");
    puts("listening");
    fflush(stdout);
    int first = accept(listener, NULL, NULL), second = accept(listener, NULL, NULL);
    check(first >= 0 && second >= 0, "accept");
    while ((got = read(first, bytes, sizeof bytes)) > 0) {
        check(write(first, bytes, got) == got, "write");
    }
    while ((got = read(second, bytes, sizeof bytes)) > 0) {
        total += got;
    }
    check(got == 0, "the end");
    printf("%ld bytes\n", total);
}

static void ask(const struct sockaddr_in *at) {
    char line[256], back[256];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(fd, (const void *)at, sizeof *at) == 0, "connect");
    puts("connected");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        ssize_t len = strlen(line);
        check(write(fd, line, len) == len, "write");
        if (strcmp(line, "end\n") == 0) {
            break;
        }
        for (ssize_t got = 0, more; got < len; got += more) {
            more = read(fd, back + got, len - got);
            check(more > 0, "read");
        }
        check(memcmp(line, back, len) == 0, "another line came back");
        fputs(line, stdout);
        fflush(stdout);
    }
    close(fd);
}

static void receive(struct sockaddr_in at, const char *how) {
    char bytes[256], text[INET_ADDRSTRLEN];
    int fd = socket(AF_INET, SOCK_DGRAM, 0), steps = strcmp(how, "step") == 0;
    at.sin_addr.s_addr = htonl(INADDR_ANY);
    check(bind(fd, (const void *)&at, sizeof at) == 0, "bind");
    puts("bound");
    fflush(stdout);
    if (strcmp(how, "late") == 0) {
        check(fgets(bytes, sizeof bytes, stdin) != NULL, "a line");
    }
    for (;;) {
        struct sockaddr_in from = {0};
        socklen_t len = sizeof from;
        steps = steps && fgets(bytes, sizeof bytes, stdin) != NULL;
        ssize_t got = recvfrom(fd, bytes, sizeof bytes, 0, (void *)&from, &len);
        check(got >= 0, "recvfrom");
        if (got == 3 && memcmp(bytes, "end", 3) == 0) {
            exit(0);
        }
        inet_ntop(AF_INET, &from.sin_addr, text, sizeof text);
        printf("%s:%d %.*s\n", text, ntohs(from.sin_port), (int)got, bytes);
        fflush(stdout);
        check(sendto(fd, bytes, got, 0, (const void *)&from, len) == got, "sendto");
    }
}

static void send_lines(const struct sockaddr_in *at, int port) {
    char line[256], back[256];
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t len = sizeof own;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    check(bind(fd, (const void *)&own, sizeof own) == 0, "bind");
    check(getsockname(fd, (void *)&own, &len) == 0, "getsockname");
    printf("port %d\n", ntohs(own.sin_port));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        ssize_t size = strcspn(line, "\n");
        check(sendto(fd, line, size, 0, (const void *)at, sizeof *at) == size, "sendto");
        ssize_t got = recv(fd, back, sizeof back, 0);
        check(got >= 0, "recv");
        printf("%.*s\n", (int)got, back);
        fflush(stdout);
    }
}

static void scatter(struct sockaddr_in at, int count) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    for (int number = 1; number <= count; number++) {
        at.sin_addr.s_addr = htonl(0x7f010000 + number);
        check(sendto(fd, &number, 4, 0, (const void *)&at, sizeof at) == 4, "sendto");
    }
    puts("sent");
    fflush(stdout);
    while (getchar() != EOF) {
    }
}

int main(int argc, char **argv) {
    check(argc >= 3, "strangers HOW ..");
    struct rlimit limit = {DESCRIPTORS, DESCRIPTORS};
    check(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    struct sockaddr_in at = {.sin_family = AF_INET};
    if (strcmp(argv[1], "serve") == 0) {
        at.sin_port = htons(atoi(argv[2]));
        serve(at);
    } else if (strcmp(argv[1], "neglect") == 0) {
        at.sin_port = htons(atoi(argv[2]));
        neglect(at);
    } else if (strcmp(argv[1], "receive") == 0) {
        at.sin_port = htons(atoi(argv[2]));
        receive(at, argc > 3 ? argv[3] : "");
    } else if (strcmp(argv[1], "scatter") == 0) {
        at.sin_port = htons(atoi(argv[2]));
        scatter(at, atoi(argv[3]));
    } else {
        check(inet_pton(AF_INET, argv[2], &at.sin_addr) == 1, "an address");
        at.sin_port = htons(atoi(argv[3]));
        if (strcmp(argv[1], "send") == 0) {
            send_lines(&at, argc > 4 ? atoi(argv[4]) : 0);
        } else {
            ask(&at);
        }
    }
    return 0;
}
