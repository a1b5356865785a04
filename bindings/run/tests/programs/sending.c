/* Cases of calls.c: what a program sends, and its sockets. */
#include "calls.h"

int fcntl64(int fd, int command, ...);

/* The next send of this socket arrives. */
static void goes_on(int client) {
    CHECK(send(client, "on", 2, 0) == 2);
    arrives(client, "on", 2);
}

static void sends(void) {
    int client = new_client(1), alone = new_client(0);
    errno = 77;
    CHECK(send(client, "abc", 3, 0) == 3 && errno == 77);
    arrives(client, "abc", 3);
    CHECK(send(client, "", 0, 0) == 0);
    arrives(client, "", 0);
    static char most[65507] = "longest";
    CHECK(send(client, most, sizeof most, 0) == sizeof most);
    arrives(client, most, sizeof most);
    FAILS(send(client, most, sizeof most + 1, 0), EMSGSIZE);
    FAILS(send(client, NULL, 3, 0), EFAULT);
    FAILS(send(client, "a", 1, MSG_OOB), EOPNOTSUPP);
    FAILS(send(alone, "a", 1, 0), EDESTADDRREQ);
    FAILS(send(-1, "a", 1, 0), EBADF);
    /* Without waiting, there is room. */
    CHECK(send(client, "now", 3, MSG_DONTWAIT) == 3);
    arrives(client, "now", 3);
    CHECK(fcntl(client, F_SETFL, O_NONBLOCK) == 0);
    goes_on(client);
    /* The kernel joins the parts. */
    CHECK(send(client, "a ", 2, MSG_MORE) == 2 && send(client, "whole", 5, 0) == 5);
    arrives(client, "a whole", 7);
    goes_on(client);
    close(client);
    close(alone);
}

static void sends_to(void) {
    int client = new_client(0);
    struct sockaddr_in own = own_address(client);
    CHECK(own.sin_port == 0);
    CHECK(sendto(client, "abc", 3, 0, address(&at), sizeof at) == 3);
    arrives(client, "abc", 3);
    /* As after any first datagram, the socket has a port, and keeps it. */
    own = own_address(client);
    CHECK(own.sin_port != 0);
    CHECK(sendto(client, "", 0, 0, address(&at), sizeof at) == 0);
    arrives(client, "", 0);
    struct sockaddr_in later = own_address(client);
    CHECK(same(&own, &later));
    FAILS(sendto(client, "a", 1, 0, address(&at), 4), EINVAL);
    FAILS(sendto(client, "a", 1, 0, NULL, 0), EDESTADDRREQ);
    CHECK(connect(client, address(&at), sizeof at) == 0);
    CHECK(sendto(client, "abc", 3, 0, NULL, 0) == 3);
    arrives(client, "abc", 3);
    FAILS(sendto(client, "a", 1, 0, address(&at), 4), EINVAL);
    close(client);
    /* A socket of IPv6 reaches the server by its mapped address. */
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = at.sin_port};
    CHECK(inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr) == 1);
    client = socket(AF_INET6, SOCK_DGRAM, 0);
    if (client >= 0) {
        const struct sockaddr *to = (struct sockaddr *)&mapped;
        CHECK(sendto(client, "six", 3, 0, to, sizeof mapped) == 3);
        struct sockaddr_in6 own6;
        socklen_t len = sizeof own6;
        CHECK(getsockname(client, (struct sockaddr *)&own6, &len) == 0);
        struct sockaddr_in sender;
        char bytes[4];
        len = sizeof sender;
        CHECK(recvfrom(server, bytes, 4, 0, (struct sockaddr *)&sender, &len) == 3);
        CHECK(sender.sin_port == own6.sin6_port);
        close(client);
    }
    /* The server sees the address to which the client is bound. */
    client = new_client(0);
    struct sockaddr_in other = {.sin_family = AF_INET};
    other.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    CHECK(bind(client, address(&other), sizeof other) == 0);
    CHECK(sendto(client, "two", 3, 0, address(&at), sizeof at) == 3);
    char bytes[4];
    struct sockaddr_in sender;
    socklen_t len = sizeof sender;
    CHECK(recvfrom(server, bytes, 4, 0, (struct sockaddr *)&sender, &len) == 3);
    other = own_address(client);
    CHECK(same(&sender, &other));
    close(client);
}

static void sends_headers(void) {
    int client = new_client(0);
    struct iovec parts[3] = {{"one", 3}, {"", 0}, {"two", 3}};
    struct msghdr message = {&at, sizeof at, parts, 3, NULL, 0, 0};
    CHECK(sendmsg(client, &message, 0) == 6);
    arrives(client, "onetwo", 6);
    message.msg_iovlen = 0;
    CHECK(sendmsg(client, &message, 0) == 0);
    arrives(client, "", 0);
    message.msg_iovlen = 2000;
    FAILS(sendmsg(client, &message, 0), EMSGSIZE);
    message.msg_iovlen = 3;
    message.msg_name = NULL;
    message.msg_namelen = 0;
    FAILS(sendmsg(client, &message, 0), EDESTADDRREQ);
    CHECK(connect(client, address(&at), sizeof at) == 0);
    CHECK(sendmsg(client, &message, 0) == 6);
    arrives(client, "onetwo", 6);
    /* A segment size of the socket or the call makes several datagrams. */
    int segment = 4;
    if (setsockopt(client, 17 /* SOL_UDP */, 103 /* UDP_SEGMENT */, &segment, sizeof segment) == 0) {
        CHECK(send(client, "onetwo", 6, 0) == 6);
        arrives(client, "onet", 4);
        arrives(client, "wo", 2);
    }
    close(client);
}

static void sends_many(void) {
    int client = new_client(0), connected = new_client(1);
    struct iovec parts[2] = {{"abc", 3}, {"de", 2}};
    struct mmsghdr many[2] = {
        {.msg_hdr = {&at, sizeof at, &parts[0], 1, NULL, 0, 0}},
        {.msg_hdr = {&at, sizeof at, &parts[1], 1, NULL, 0, 0}},
    };
    CHECK(sendmmsg(client, many, 2, 0) == 2 && many[0].msg_len == 3 && many[1].msg_len == 2);
    arrives(client, "abc", 3);
    arrives(client, "de", 2);
    /* What was sent before an error counts. */
    many[1].msg_hdr.msg_namelen = 4;
    CHECK(sendmmsg(client, many, 2, 0) == 1);
    arrives(client, "abc", 3);
    FAILS(sendmmsg(client, &many[1], 1, 0), EINVAL);
    CHECK(sendmmsg(client, many, 0, 0) == 0);
    many[0].msg_hdr.msg_name = NULL;
    many[0].msg_hdr.msg_namelen = 0;
    CHECK(sendmmsg(connected, many, 1, 0) == 1 && many[0].msg_len == 3);
    arrives(connected, "abc", 3);
    close(client);
    close(connected);
}

static void writes(void) {
    int client = new_client(1);
    CHECK(write(client, "abc", 3) == 3);
    arrives(client, "abc", 3);
    FAILS(write(-1, "abc", 3), EBADF);
    close(client);
    /* The number belongs to a file now. */
    int pipes[2];
    char bytes[3];
    CHECK(pipe(pipes) == 0 && write(pipes[1], "abc", 3) == 3 && read(pipes[0], bytes, 3) == 3);
    close(pipes[0]);
    close(pipes[1]);
}

static void writes_parts(void) {
    int client = new_client(1);
    struct iovec parts[3] = {{"one", 3}, {"", 0}, {"two", 3}};
    CHECK(writev(client, parts, 3) == 6);
    arrives(client, "onetwo", 6);
    FAILS(writev(client, parts, -(int)unknown(1)), EINVAL);
    FAILS(writev(client, parts, (int)unknown(2000)), EINVAL);
    close(client);
}

static void binds(void) {
    int other = new_client(0);
    FAILS(bind(other, address(&at), sizeof at), EADDRINUSE);
    FAILS(bind(server, address(&at), sizeof at), EINVAL);
    FAILS(bind(other, address(&at), 4), EINVAL);
    FAILS(bind(-1, address(&at), sizeof at), EBADF);
    close(other);
    struct sockaddr_in own = own_address(server);
    CHECK(same(&own, &at));
}

static void connects(void) {
    int client = new_client(1);
    struct sockaddr_in peer = {0}, none = {.sin_family = AF_UNSPEC};
    socklen_t len = sizeof peer;
    CHECK(getpeername(client, (struct sockaddr *)&peer, &len) == 0 && same(&peer, &at));
    goes_on(client);
    CHECK(connect(client, address(&none), sizeof none) == 0);
    FAILS(getpeername(client, (struct sockaddr *)&peer, &len), ENOTCONN);
    FAILS(send(client, "a", 1, 0), EDESTADDRREQ);
    CHECK(connect(client, address(&at), sizeof at) == 0);
    goes_on(client);
    FAILS(connect(client, address(&at), 4), EINVAL);
    FAILS(connect(-1, address(&at), sizeof at), EBADF);
    close(client);
}

static void names(void) {
    struct sockaddr_in own = {0};
    socklen_t len = 4;
    /* A short place is filled as far as it goes, and the length is the whole one. */
    CHECK(getsockname(server, (struct sockaddr *)&own, &len) == 0 && len == sizeof own);
    CHECK(own.sin_port == at.sin_port && own.sin_addr.s_addr == 0);
    FAILS(getsockname(-1, (struct sockaddr *)&own, &len), EBADF);
}

static void shuts_down(void) {
    int client = new_client(1);
    goes_on(client);
    CHECK(shutdown(client, SHUT_WR) == 0);
    FAILS(send(client, "a", 1, MSG_NOSIGNAL), EPIPE);
    close(client);
    FAILS(shutdown(-1, SHUT_RD), EBADF);
}

static void makes_sockets(void) {
    int one = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), two;
    CHECK(one >= 0 && (fcntl(one, F_GETFL) & O_NONBLOCK) != 0);
    close(one);
    /* The lowest free number, as always. */
    two = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(two == one);
    close(two);
    FAILS(socket(AF_INET, 99, 0), EINVAL);
}

static void makes_eventfds(void) {
    eventfd_t value = 0;
    int fd = eventfd(3, EFD_NONBLOCK);
    CHECK(fd >= 0 && eventfd_read(fd, &value) == 0 && value == 3);
    FAILS(eventfd_read(fd, &value), EAGAIN);
    close(fd);
}

static void *send_in_thread(void *client) {
    goes_on(*(int *)client);
    return client;
}

static void makes_threads(void) {
    int client = new_client(1);
    pthread_t thread;
    void *result = NULL;
    CHECK(pthread_create(&thread, NULL, send_in_thread, &client) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == &client);
    close(client);
}

static void is_copy(int copy, int of) {
    CHECK(copy >= 0 && copy != of);
    goes_on(copy);
    goes_on(of);
    close(copy);
    goes_on(of);
}

static void copies(void) {
    int client = new_client(1);
    is_copy(dup(client), client);
    FAILS(dup(-1), EBADF);
    int copy = dup(client);
    close(client);
    goes_on(copy);
    close(copy);
}

static void copies_to_number(void) {
    int client = new_client(1), other = new_client(0);
    CHECK(dup2(client, other) == other);
    is_copy(other, client);
    CHECK(dup2(client, client) == client);
    goes_on(client);
    CHECK(dup3(client, other, O_CLOEXEC) == other && fcntl(other, F_GETFD) == FD_CLOEXEC);
    is_copy(other, client);
    FAILS(dup3(client, client, 0), EINVAL);
    /* The number is another socket's now, which isn't connected. */
    other = new_client(0);
    int copy = dup(client);
    CHECK(dup2(other, copy) == copy);
    FAILS(send(copy, "a", 1, 0), EDESTADDRREQ);
    close(client);
    close(other);
    close(copy);
}

static void controls(void) {
    int client = new_client(1);
    is_copy(fcntl(client, F_DUPFD, 50), client);
    int copy = fcntl(client, F_DUPFD_CLOEXEC, 50);
    CHECK(copy >= 50 && fcntl(copy, F_GETFD) == FD_CLOEXEC);
    is_copy(copy, client);
    is_copy(fcntl64(client, F_DUPFD, 50), client);
    CHECK(fcntl64(client, F_SETFL, O_NONBLOCK) == 0 && fcntl64(client, F_GETFL) & O_NONBLOCK);
    struct flock lock = {.l_type = F_RDLCK};
    FILE *file = tmpfile();
    CHECK(file != NULL && fcntl(fileno(file), F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK);
    fclose(file);
    close(client);
}

static void closes(void) {
    int client = new_client(1);
    CHECK(close(client) == 0);
    FAILS(send(client, "a", 1, 0), EBADF);
    FAILS(close(client), EBADF);
    /* The number is another socket's. */
    int other = new_client(0);
    CHECK(other == client);
    FAILS(send(other, "a", 1, 0), EDESTADDRREQ);
    close(other);
}

static void closes_ranges(void) {
    int client = new_client(1), other = new_client(1);
    CHECK(close_range(client, other, CLOSE_RANGE_CLOEXEC) == 0);
    goes_on(client);
    CHECK(close_range(client, other, 0) == 0);
    FAILS(send(client, "a", 1, 0), EBADF);
    FAILS(send(other, "a", 1, 0), EBADF);
    FAILS(close_range(2, 1, 0), EINVAL);
}

/* Closes everything, and goes on with a new socket. */
static int close_in_child(int way) {
    int client = new_client(1);
    goes_on(client);
    if (way == 0) {
        closefrom(3);
    } else if (way == 1) {
        CHECK(close_range(3, ~0U, 0) == 0);
    } else {
        for (int fd = 3; fd < 5000; fd++) {
            close(fd);
        }
    }
    FAILS(send(client, "a", 1, 0), EBADF);
    client = new_client(1);
    CHECK(client == 3 && send(client, "after", 5, 0) == 5);
    return 0;
}

static void closes_all(void) {
    for (int way = 0; way < 3; way++) {
        pid_t child = fork();
        if (child == 0) {
            exit(close_in_child(way));
        }
        ends_well(child);
        char bytes[6];
        CHECK(recv(server, bytes, 6, 0) == 5 && memcmp(bytes, "after", 5) == 0);
    }
}

static void forks(void) {
    int client = new_client(1), pipes[2];
    goes_on(client);
    CHECK(pipe(pipes) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(send(client, "child", 5, 0) == 5);
        exit(0);
    }
    ends_well(child);
    arrives(client, "child", 5);
    goes_on(client);
    /* A child that shares memory has no threads of the library. */
    child = vfork();
    if (child == 0) {
        _exit(send(client, "vfork", 5, 0) == 5 && close(client) == 0 ? 0 : 1);
    }
    ends_well(child);
    arrives(client, "vfork", 5);
    goes_on(client);
    child = _Fork();
    if (child == 0) {
        _exit(send(client, "_Fork", 5, 0) == 5 ? 0 : 1);
    }
    ends_well(child);
    arrives(client, "_Fork", 5);
    goes_on(client);
    close(client);
    close(pipes[0]);
    close(pipes[1]);
}

/* A connection, accepted with one of the calls. Both ends have the same names. */
static void accepts_with(int flags) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(bind(listener, address(&tcp_at), sizeof tcp_at) == 0 && listen(listener, 5) == 0);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(client, address(&tcp_at), sizeof tcp_at) == 0);
    struct sockaddr_in from = {0}, peer = {0}, own = own_address(client);
    socklen_t len = sizeof from;
    int accepted = flags < 0 ? accept(listener, (struct sockaddr *)&from, &len)
                             : accept4(listener, (struct sockaddr *)&from, &len, flags);
    CHECK(accepted >= 0 && len == sizeof from && same(&from, &own));
    CHECK(fcntl(accepted, F_GETFD) == (flags < 0 ? 0 : FD_CLOEXEC));
    CHECK(getpeername(client, (struct sockaddr *)&peer, &len) == 0 && same(&peer, &tcp_at));
    CHECK(getpeername(accepted, (struct sockaddr *)&peer, &len) == 0 && same(&peer, &own));
    own = own_address(accepted);
    CHECK(same(&own, &tcp_at));
    /* The connection outlives the listening socket. */
    CHECK(close(listener) == 0);
    usleep(300000);
    char bytes[16];
    CHECK(write(client, "line\nrest", 9) == 9 && shutdown(client, SHUT_WR) == 0);
    CHECK(recv(accepted, bytes, 9, MSG_WAITALL) == 9 && memcmp(bytes, "line\nrest", 9) == 0);
    CHECK(recv(accepted, bytes, 1, 0) == 0);
    CHECK(send(accepted, "reply", 5, 0) == 5 && recv(client, bytes, 5, MSG_WAITALL) == 5);
    close(client);
    close(accepted);
    FAILS(listen(server, 1), EOPNOTSUPP);
    FAILS(accept(server, NULL, NULL), EOPNOTSUPP);
}

static void accepts(void) {
    accepts_with(-1);
}

static void accepts_with_flags(void) {
    accepts_with(SOCK_CLOEXEC);
}

const struct named_case sending_cases[] = {
    {"send", sends},
    {"sendto", sends_to},
    {"sendmsg", sends_headers},
    {"sendmmsg", sends_many},
    {"write", writes},
    {"writev", writes_parts},
    {"bind", binds},
    {"connect getpeername", connects},
    {"getsockname", names},
    {"shutdown", shuts_down},
    {"socket", makes_sockets},
    {"eventfd", makes_eventfds},
    {"pthread_create", makes_threads},
    {"dup", copies},
    {"dup2 dup3", copies_to_number},
    {"fcntl fcntl64", controls},
    {"close", closes},
    {"close_range", closes_ranges},
    {"closefrom", closes_all},
    {"fork vfork _Fork", forks},
    {"listen accept", accepts},
    {"accept4", accepts_with_flags},
    {NULL, NULL},
};
