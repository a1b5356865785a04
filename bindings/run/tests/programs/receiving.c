/* Cases of calls.c: what a program receives, and how it waits. */
#include "calls.h"

/* A client that is connected to the server. */
static int client;

/* Two datagrams, of 3 bytes and of none, are there. */
static void send_two(void) {
    CHECK(send(client, "abc", 3, 0) == 3);
    char byte;
    CHECK(recv(server, &byte, 1, MSG_PEEK) == 1);
    CHECK(send(client, "", 0, 0) == 0);
}

static int is_from_client(const struct sockaddr_in *from) {
    struct sockaddr_in own = own_address(client);
    return same(from, &own);
}

static void receives(void) {
    client = new_client(1);
    char bytes[8] = "";
    send_two();
    CHECK(recv(server, bytes, 2, MSG_PEEK) == 2 && memcmp(bytes, "ab", 2) == 0);
    CHECK(recv(server, bytes, unknown(2), MSG_PEEK | MSG_TRUNC) == 3);
    CHECK(recv(server, bytes, 8, 0) == 3 && recv(server, bytes, 8, 0) == 0);
    /* A short place loses the rest. */
    send_byte(client, 'x');
    CHECK(recv(server, bytes, 0, 0) == 0);
    FAILS(recv(server, bytes, 8, MSG_DONTWAIT), EAGAIN);
    struct timeval short_time = {0, 50000}, timeout = {5, 0};
    CHECK(setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &short_time, sizeof timeout) == 0);
    FAILS(recv(server, bytes, 8, 0), EAGAIN);
    CHECK(setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0);
    CHECK(fcntl(server, F_SETFL, O_NONBLOCK) == 0);
    FAILS(recv(server, bytes, 8, 0), EAGAIN);
    send_byte(client, 'x');
    CHECK(recv(server, bytes, 8, 0) == 1 && bytes[0] == 'x');
    CHECK(fcntl(server, F_SETFL, 0) == 0);
    FAILS(recv(-1, bytes, 8, 0), EBADF);
}

static void receives_from(void) {
    char bytes[8] = "";
    struct sockaddr_in from = {0};
    socklen_t len = sizeof from;
    send_two();
    struct sockaddr *at_from = (struct sockaddr *)&from;
    CHECK(recvfrom(server, bytes, 8, MSG_PEEK, at_from, &len) == 3 && is_from_client(&from));
    memset(&from, 0, sizeof from);
    CHECK(recvfrom(server, bytes, 2, MSG_TRUNC, at_from, &len) == 3 && is_from_client(&from));
    CHECK(len == sizeof from);
    memset(&from, 0, sizeof from);
    CHECK(recvfrom(server, bytes, 8, 0, at_from, &len) == 0 && is_from_client(&from));
    send_byte(client, 'x');
    CHECK(recvfrom(server, bytes, 8, 0, NULL, NULL) == 1);
    send_byte(client, 'x');
    len = 4;
    memset(&from, 0, sizeof from);
    CHECK(recvfrom(server, bytes, 8, 0, at_from, &len) == 1 && len == sizeof from);
    struct sockaddr_in own = own_address(client);
    CHECK(from.sin_port == own.sin_port && from.sin_addr.s_addr == 0);
    FAILS(recvfrom(server, bytes, 8, MSG_DONTWAIT, at_from, &len), EAGAIN);
}

static void receives_from_checked(void) {
    char bytes[8] = "";
    struct sockaddr_in from = {0};
    socklen_t len = sizeof from;
    send_byte(client, 'x');
    struct sockaddr *at_from = (struct sockaddr *)&from;
    CHECK(recvfrom(server, bytes, unknown(8), 0, at_from, &len) == 1 && is_from_client(&from));
    /* A length beyond the place ends the program. */
    send_byte(client, 'y');
    pid_t child = fork();
    if (child == 0) {
        close(2);
        recvfrom(server, bytes, unknown(9), MSG_DONTWAIT, at_from, &len);
        exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGABRT && recv(server, bytes, 8, 0) == 1);
}

static void receives_headers(void) {
    char bytes[4] = "", more[4] = "", control[64];
    struct sockaddr_in from = {0};
    struct iovec parts[2] = {{bytes, 2}, {more, 4}};
    struct msghdr message = {&from, sizeof from, parts, 2, control, sizeof control, 0};
    send_two();
    CHECK(recvmsg(server, &message, MSG_PEEK) == 3 && memcmp(bytes, "ab", 2) == 0);
    CHECK(more[0] == 'c' && is_from_client(&from) && message.msg_namelen == sizeof from);
    CHECK(message.msg_flags == 0 && message.msg_controllen == 0);
    memset(&from, 0, sizeof from);
    message.msg_iovlen = 1;
    CHECK(recvmsg(server, &message, 0) == 2 && message.msg_flags == MSG_TRUNC);
    CHECK(is_from_client(&from));
    message.msg_name = NULL;
    CHECK(recvmsg(server, &message, 0) == 0 && message.msg_flags == 0);
    FAILS(recvmsg(server, &message, MSG_DONTWAIT), EAGAIN);
    FAILS(recvmsg(-1, &message, 0), EBADF);
}

/* Too little room for the address and for a control message: nothing behind them is written. */
static void cuts(struct mmsghdr *one) {
    unsigned char name[28], control[48] __attribute__((aligned(8)));
    int on = 1;
    CHECK(setsockopt(server, IPPROTO_IP, IP_PKTINFO, &on, sizeof on) == 0);
    for (int many = 0; many < 2; many++) {
        memset(name, 0xaa, sizeof name);
        memset(control, 0xaa, sizeof control);
        one->msg_hdr.msg_name = name;
        one->msg_hdr.msg_namelen = 4;
        one->msg_hdr.msg_control = control;
        one->msg_hdr.msg_controllen = 20;
        send_byte(client, 'x');
        if (many) {
            CHECK(recvmmsg(server, one, 1, 0, NULL) == 1);
        } else {
            CHECK(recvmsg(server, &one->msg_hdr, 0) == 1);
        }
        CHECK(name[4] == 0xaa && name[27] == 0xaa && one->msg_hdr.msg_flags & MSG_CTRUNC);
        for (int at = 20; at < 48; at++) CHECK(control[at] == 0xaa);
    }
    int off = 0;
    CHECK(setsockopt(server, IPPROTO_IP, IP_PKTINFO, &off, sizeof off) == 0);
}

static void receives_many(void) {
    char bytes[3][4];
    struct sockaddr_in from[3] = {0};
    struct iovec parts[3];
    struct mmsghdr many[3] = {0};
    for (int i = 0; i < 3; i++) {
        parts[i] = (struct iovec){bytes[i], 4};
        many[i].msg_hdr = (struct msghdr){&from[i], sizeof from[i], &parts[i], 1, NULL, 0, 0};
    }
    send_two();
    CHECK(recvmmsg(server, many, 2, 0, NULL) == 2);
    CHECK(many[0].msg_len == 3 && many[1].msg_len == 0);
    CHECK(is_from_client(&from[0]) && is_from_client(&from[1]));
    send_byte(client, 'x');
    CHECK(recvmmsg(server, many, 3, MSG_WAITFORONE, NULL) == 1 && many[0].msg_len == 1);
    struct timespec soon = {0, 1000000};
    send_byte(client, 'x');
    CHECK(recvmmsg(server, many, 1, 0, &soon) == 1 && is_from_client(&from[0]));
    FAILS(recvmmsg(server, many, 3, MSG_DONTWAIT, NULL), EAGAIN);
    cuts(&many[0]);
}

static void reads(void) {
    char bytes[8] = "";
    send_two();
    CHECK(read(server, bytes, unknown(8)) == 3 && read(server, bytes, 8) == 0);
    CHECK(memcmp(bytes, "abc", 3) == 0);
    struct iovec parts[2] = {{bytes, 1}, {bytes + 4, 1}};
    send_two();
    CHECK(readv(server, parts, 2) == 2 && bytes[4] == 'b' && readv(server, parts, 2) == 0);
}

static void polls(void) {
    struct pollfd ready = {server, POLLIN, 0};
    struct timespec soon = {0, 20000000}, later = {5, 0};
    char byte;
    CHECK(poll(&ready, 1, 20) == 0 && ppoll(&ready, 1, &soon, NULL) == 0);
    CHECK(send(client, "x", 1, 0) == 1);
    CHECK(ppoll(&ready, unknown(1), &later, NULL) == 1 && ready.revents == POLLIN);
    CHECK(poll(&ready, unknown(1), 0) == 1 && recv(server, &byte, 1, 0) == 1);
    CHECK(poll(&ready, 1, 0) == 0);
    /* Room to send. */
    ready = (struct pollfd){client, POLLOUT, 0};
    CHECK(poll(&ready, 1, 0) == 1 && ready.revents == POLLOUT);
}

static void selects(void) {
    fd_set set;
    struct timeval soon = {0, 20000}, later = {5, 0};
    struct timespec soon_ns = {0, 20000000}, later_ns = {5, 0};
    char byte;
    FD_ZERO(&set);
    FD_SET(server, &set);
    CHECK(select(server + 1, &set, NULL, NULL, &soon) == 0 && !FD_ISSET(server, &set));
    FD_SET(server, &set);
    CHECK(pselect(server + 1, &set, NULL, NULL, &soon_ns, NULL) == 0);
    CHECK(send(client, "x", 1, 0) == 1);
    FD_SET(server, &set);
    CHECK(select(server + 1, &set, NULL, NULL, &later) == 1 && FD_ISSET(server, &set));
    CHECK(pselect(server + 1, &set, NULL, NULL, &later_ns, NULL) == 1);
    CHECK(recv(server, &byte, 1, 0) == 1);
}

static void waits(void) {
    int level = epoll_create1(0), edge = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = 7}, edged = event;
    edged.events |= EPOLLET;
    CHECK(epoll_ctl(level, EPOLL_CTL_ADD, server, &event) == 0);
    CHECK(epoll_ctl(edge, EPOLL_CTL_ADD, server, &edged) == 0);
    CHECK(epoll_wait(level, &event, 1, 20) == 0 && epoll_wait(edge, &event, 1, 0) == 0);
    CHECK(send(client, "x", 1, 0) == 1);
    CHECK(epoll_wait(level, &event, 1, 5000) == 1 && event.data.fd == 7);
    CHECK(epoll_pwait(level, &event, 1, 0, NULL) == 1);
    /* The edge shows once for a datagram. */
    CHECK(epoll_wait(edge, &event, 1, 5000) == 1 && event.events == EPOLLIN);
    CHECK(epoll_wait(edge, &event, 1, 0) == 0);
    send_byte(client, 'y');
    CHECK(epoll_wait(edge, &event, 1, 5000) == 1 && epoll_wait(edge, &event, 1, 0) == 0);
    char byte;
    CHECK(recv(server, &byte, 1, 0) == 1 && recv(server, &byte, 1, 0) == 1 && byte == 'y');
    CHECK(epoll_wait(level, &event, 1, 0) == 0);
    close(level);
    close(edge);
}

/* Datagrams arrive again. The client's library learns of the change by a failure, and UDP may lose
 * what was sent before that. */
static void arrive_again(void) {
    char bytes[4];
    struct pollfd ready = {server, POLLIN, 0};
    int got = 0;
    for (int i = 0; i < 100 && !got; i++) {
        CHECK(send(client, "me", 2, 0) == 2);
        got = poll(&ready, 1, 100);
    }
    CHECK(got == 1);
    while (poll(&ready, 1, 300) == 1) {
        CHECK(recv(server, bytes, 4, 0) == 2 && memcmp(bytes, "me", 2) == 0);
    }
}

/* A server that is connected to one client receives from that one only. */
static void receives_from_its_peer(void) {
    struct sockaddr_in peer = own_address(client), none = {.sin_family = AF_UNSPEC};
    char bytes[4];
    CHECK(connect(server, address(&peer), sizeof peer) == 0);
    CHECK(send(server, "hi", 2, 0) == 2 && recv(client, bytes, 4, 0) == 2);
    arrive_again();
    CHECK(connect(server, address(&none), sizeof none) == 0);
    arrive_again();
}

/* A port is free again as soon as its socket is closed. */
static void binds_again(void) {
    for (int i = 0; i < 3; i++) {
        close(server);
        server = new_client(0);
        CHECK(bind(server, address(&at), sizeof at) == 0);
    }
    arrive_again();
}

/* The memory of the datagrams that the server hasn't read. */
static unsigned unread_bytes(void) {
    unsigned info[9] = {0};
    socklen_t len = sizeof info;
    CHECK(getsockopt(server, SOL_SOCKET, SO_MEMINFO, info, &len) == 0);
    return info[0];
}

/* Senders keep their addresses, also if the library has no socket for each any more. It waits only
 * for a while until one is free. Then a sender has no address, but never another one's. */
static void receives_from_many(void) {
    /* The library has sockets for more than UNREAD of them. */
    enum { SENDERS = 260, UNREAD = 80 };
    static int clients[SENDERS];
    int room = 1 << 20, number, unnamed = 0;
    socklen_t len = sizeof room;
    CHECK(setsockopt(server, SOL_SOCKET, SO_RCVBUF, &room, sizeof room) == 0);
    unsigned before = unread_bytes(), each = 0;
    for (int i = 0; i < SENDERS; i++) {
        clients[i] = new_client(0);
        CHECK(sendto(clients[i], &i, sizeof i, 0, address(&at), sizeof at) == sizeof i);
        struct pollfd ready = {server, POLLIN, 0};
        CHECK(i > 0 || poll(&ready, 1, 5000) == 1);
        each = i > 0 ? each : unread_bytes() - before;
    }
    for (int i = 0; i < 500 && unread_bytes() < before + UNREAD * each; i++) {
        usleep(20000);
    }
    CHECK(unread_bytes() >= before + UNREAD * each);
    for (int i = 0; i < SENDERS; i++) {
        struct sockaddr_in from = {0}, own;
        len = sizeof from;
        CHECK(recvfrom(server, &number, sizeof number, 0, (struct sockaddr *)&from, &len) == 4);
        CHECK(number >= 0 && number < SENDERS);
        own = own_address(clients[number]);
        own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (from.sin_addr.s_addr == htonl(INADDR_ANY)) {
            unnamed++;
        } else {
            CHECK(same(&from, &own));
        }
        close(clients[number]);
    }
    CHECK(unnamed <= SENDERS - UNREAD);
}

const struct named_case receiving_cases[] = {
    {"recv", receives},
    {"more senders than sockets", receives_from_many},
    {"recvfrom", receives_from},
    {"__recvfrom_chk", receives_from_checked},
    {"recvmsg", receives_headers},
    {"recvmmsg", receives_many},
    {"read readv", reads},
    {"poll ppoll", polls},
    {"select pselect", selects},
    {"epoll_wait", waits},
    {"connect of a server", receives_from_its_peer},
    {"bind after close", binds_again},
    {NULL, NULL},
};
