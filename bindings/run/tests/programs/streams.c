/* A plain TCP program: `streams serve PORT` reads one connection in all ways that it knows, prints
 * its peer and bytes, and replies with their number. `streams send PORT FILE` sends the file in all
 * ways, in pieces, and prints the reply. `streams exit PORT FILE` ends without waiting for it.
 *
 * `streams ignore PORT` accepts a connection and reads nothing, and `streams fill PORT` sends lines
 * as long as there is room. `streams answer PORT` replies as long as there is room, and exits at
 * once. `streams listen PORT` reads the reply. All but `answer` wait for the end of their input.
 * `streams pause PORT` reads after that, and has closed its listening socket. `streams fill-all
 * PORT` fills after a line of its input, and waits for the reply's end. `streams bulk PORT` writes
 * 500 lines of 8,000 bytes instead. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static ssize_t read_somehow(int fd, int copy, int way, char *into, size_t room) {
    struct pollfd ready = {fd, POLLIN, 0};
    struct epoll_event event = {.events = EPOLLIN};
    struct iovec parts[2] = {{into, 1}, {into + 1, room - 1}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    fd_set set;
    int epoll;
    switch (way % 5) {
    case 0:
        check(poll(&ready, 1, 10000) == 1, "poll");
        return read(fd, into, room);
    case 1:
        epoll = epoll_create1(0);
        check(epoll_ctl(epoll, EPOLL_CTL_ADD, copy, &event) == 0, "epoll_ctl");
        check(epoll_wait(epoll, &event, 1, 10000) == 1, "epoll_wait");
        close(epoll);
        return recv(fd, into, room, 0);
    case 2:
        return readv(copy, parts, 2);
    case 3:
        FD_ZERO(&set);
        FD_SET(fd, &set);
        check(select(fd + 1, &set, NULL, NULL, NULL) == 1, "select");
        return recvmsg(fd, &message, 0);
    default:
        return recvfrom(copy, into, room, 0, NULL, NULL);
    }
}

static void serve(int listener) {
    struct sockaddr_in from = {0}, peer = {0}, own = {0};
    socklen_t from_len = sizeof from, peer_len = sizeof peer, own_len = sizeof own;
    int fd = accept4(listener, (struct sockaddr *)&from, &from_len, SOCK_CLOEXEC);
    check(fd >= 0, "accept4");
    check(getpeername(fd, (struct sockaddr *)&peer, &peer_len) == 0, "getpeername");
    check(getsockname(fd, (struct sockaddr *)&own, &own_len) == 0, "getsockname");
    check(memcmp(&from, &peer, sizeof from) == 0, "two names of the peer");
    printf("peer %d own %d\n", ntohs(peer.sin_port), ntohs(own.sin_port));
    int copy = dup(fd);
    long total = 0;
    static char bytes[1 << 16];
    for (int way = 0;; way++) {
        ssize_t got = read_somehow(fd, copy, way, bytes, sizeof bytes);
        check(got >= 0, "a read");
        if (got == 0) {
            break;
        }
        fwrite(bytes, 1, got, stdout);
        total += got;
    }
    dprintf(copy, "%ld bytes\n", total);
    close(copy);
    shutdown(fd, SHUT_WR);
    close(fd);
    printf("end\n");
    fflush(stdout);
    pause();
}

/* The test says when to go on. */
static void wait_for_input(void) {
    char byte;
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
}

static int accept_one(int listener) {
    puts("listening");
    fflush(stdout);
    int fd = accept(listener, NULL, NULL);
    check(fd >= 0, "accept");
    return fd;
}

static char line[8000];

static void make_line(void) {
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
}

/* Writes lines until there has been no room for half a second; the number of bytes. */
static long fill(int fd) {
    struct pollfd ready = {fd, POLLOUT, 0};
    long total = 0;
    make_line();
    while (poll(&ready, 1, 500) == 1) {
        ssize_t done = send(fd, line, sizeof line, MSG_DONTWAIT);
        check(done > 0 || errno == EAGAIN, "send");
        total += done > 0 ? done : 0;
    }
    return total;
}

/* Writes 500 lines, for which there is room; the number of bytes. */
static long write_bulk(int fd) {
    make_line();
    for (int i = 0; i < 500; i++) {
        check(send(fd, line, sizeof line, 0) == sizeof line, "send");
    }
    return 500 * sizeof line;
}

static void listen_to(int fd) {
    static char bytes[1 << 16];
    long total = 0;
    ssize_t got;
    puts("connected");
    wait_for_input();
    while ((got = read(fd, bytes, sizeof bytes)) > 0) {
        total += got;
    }
    check(got == 0, "the reply's end");
    printf("%ld bytes\n", total);
    exit(0);
}

static int connect_to(struct sockaddr_in *to) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = 0;
    socklen_t len = sizeof error;
    errno = 77;
    if (connect(fd, (struct sockaddr *)to, sizeof *to) != 0) {
        check(errno == EINPROGRESS, "connect");
        struct pollfd ready = {fd, POLLOUT, 0};
        check(poll(&ready, 1, 10000) == 1, "poll");
        check(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0, "SO_ERROR");
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    struct sockaddr_in name = {0};
    len = sizeof name;
    check(getpeername(fd, (struct sockaddr *)&name, &len) == 0, "getpeername");
    check(name.sin_port == to->sin_port && name.sin_addr.s_addr == to->sin_addr.s_addr, "the peer");
    /* The kernel answers the first repetition with 0, after a connect that didn't wait. */
    connect(fd, (struct sockaddr *)to, sizeof *to);
    check(connect(fd, (struct sockaddr *)to, sizeof *to) < 0 && errno == EISCONN, "a 3rd connect");
    len = sizeof name;
    check(getsockname(fd, (struct sockaddr *)&name, &len) == 0, "getsockname");
    printf("own %d\n", ntohs(name.sin_port));
    fflush(stdout);
    return fd;
}

static void send_file(int fd, const char *path) {
    int file = open(path, O_RDONLY), copy = dup(fd);
    char bytes[8];
    ssize_t got;
    for (int way = 0; way < 6 && (got = read(file, bytes, 7)) > 0; way++) {
        struct iovec parts[2] = {{bytes, 1}, {bytes + 1, got - 1}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        struct mmsghdr many = {.msg_hdr = message};
        int done = 0;
        switch (way) {
        case 0:
            done = write(fd, bytes, got) == got;
            break;
        case 1:
            done = writev(copy, parts, 2) == got;
            break;
        case 2:
            done = send(fd, bytes, got, MSG_NOSIGNAL) == got;
            break;
        case 3:
            done = sendmsg(copy, &message, 0) == got;
            break;
        case 4:
            done = sendmmsg(fd, &many, 1, 0) == 1;
            break;
        default:
            /* The child has none of the library's threads, but its socket is the parent's. */
            if (fork() == 0) {
                _exit(write(fd, bytes, got) == got ? 0 : 1);
            }
            wait(&done);
            done = done == 0;
        }
        check(done, "a write");
        usleep(2000);
    }
    while ((got = sendfile(fd, file, NULL, 1 << 20)) > 0) {
    }
    check(got == 0, "sendfile");
    close(copy);
    close(file);
}

static int is(const char *word, const char *other) {
    return strcmp(word, other) == 0;
}

static int listen_at(const struct sockaddr_in *at) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    check(bind(fd, (const struct sockaddr *)at, sizeof *at) == 0 && listen(fd, 5) == 0, "listen");
    return fd;
}

int main(int argc, char **argv) {
    check(argc >= 3, "streams serve PORT, or streams send PORT FILE");
    /* A process that hangs is no success. */
    alarm(100);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    if (is(argv[1], "serve")) {
        int fd = listen_at(&at);
        puts("listening");
        fflush(stdout);
        serve(fd);
    } else if (is(argv[1], "ignore")) {
        int listener = listen_at(&at);
        accept_one(listener);
        close(listener);
        puts("accepted");
        wait_for_input();
        exit(0);
    } else if (is(argv[1], "pause")) {
        int listener = listen_at(&at), fd = accept_one(listener);
        close(listener);
        listen_to(fd);
    } else if (is(argv[1], "answer")) {
        printf("%ld bytes\n", fill(accept_one(listen_at(&at))));
        fflush(stdout);
        exit(0);
    }
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = connect_to(&at);
    if (is(argv[1], "listen")) {
        listen_to(fd);
    } else if (is(argv[1], "fill")) {
        printf("%ld bytes are full\n", fill(fd));
        wait_for_input();
        exit(0);
    } else if (is(argv[1], "fill-all") || is(argv[1], "bulk")) {
        char byte;
        check(getchar() != EOF, "a line");
        printf("%ld bytes\n", is(argv[1], "bulk") ? write_bulk(fd) : fill(fd));
        fflush(stdout);
        check(shutdown(fd, SHUT_WR) == 0 && read(fd, &byte, 1) == 0, "the reply's end");
        exit(0);
    }
    send_file(fd, argv[3]);
    if (is(argv[1], "exit")) {
        /* Neither shutdown nor close: the process's end is the stream's. */
        exit(0);
    }
    check(shutdown(fd, SHUT_WR) == 0, "shutdown");
    char reply[64];
    ssize_t got;
    while ((got = read(fd, reply, sizeof reply)) > 0) {
        fwrite(reply, 1, got, stdout);
    }
    check(got == 0, "the reply's end");
    return 0;
}
