/* `children PORT ATP_PORT TCP_PORT` makes a child while the library receives, sends and carries a
 * connection. The child has nothing of that, and goes on with the sockets that it inherits. Prints
 * "as expected". */
#include "ports.h"
#include <dirent.h>
#include <string.h>
#include <sys/wait.h>

static int entries(const char *folder) {
    DIR *opened = opendir(folder);
    int count = 0;
    check(opened != NULL, folder);
    for (struct dirent *entry; (entry = readdir(opened)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    closedir(opened);
    return count;
}

/* The descriptors of a program that is started now. */
static int of_program(void) {
    FILE *listed = popen("ls /proc/self/fd | wc -l", "r");
    int count = -1;
    check(listed != NULL && fscanf(listed, "%d", &count) == 1 && pclose(listed) == 0, "ls");
    return count;
}

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

/* A datagram from the client reaches the server, which sees the client's address. */
static void arrives(int client, int server, const char *word) {
    struct sockaddr_in from = {0}, own = {0};
    socklen_t len = sizeof from, own_len = sizeof own;
    char bytes[16];
    check(send(client, word, strlen(word), 0) == (ssize_t)strlen(word), "send");
    ssize_t got = recvfrom(server, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &len);
    check(got == (ssize_t)strlen(word) && memcmp(bytes, word, got) == 0, word);
    check(getsockname(client, (struct sockaddr *)&own, &own_len) == 0, "getsockname");
    check(from.sin_port == own.sin_port, "the sender's port");
}

/* A byte tells the other process to go on. */
static void tell(int pipe) {
    check(write(pipe, "", 1) == 1, "write");
}

static void wait_for(int pipe) {
    char byte;
    check(read(pipe, &byte, 1) == 1, "read");
}

/* A child of vfork has the parent's memory, but descriptors of its own. It puts another socket in
 * the place of each descriptor, and makes calls that the library replaces. */
static void make_sharing_child(int one, int other, int port) {
    int fds[2] = {one, other}, status = 1;
    struct sockaddr_in at = loopback(port);
    pid_t child = vfork();
    if (child == 0) {
        int well = 1;
        for (int i = 0; i < 2; i++) {
            int own = socket(AF_INET, SOCK_DGRAM, 0);
            well &= own >= 0 && dup2(own, fds[i]) == fds[i];
            well &= connect(fds[i], (struct sockaddr *)&at, sizeof at) == 0;
            well &= shutdown(fds[i], SHUT_WR) == 0 && close(fds[i]) == 0;
            well &= close_range(own, own, 0) == 0;
        }
        _exit(well ? 0 : 1);
    }
    check(waitpid(child, &status, 0) == child && status == 0, "the child of vfork");
}

int main(int argc, char **argv) {
    check(argc == 4, "children PORT ATP_PORT TCP_PORT");
    alarm(LIMIT_S);
    /* The first calls of the process. Standard input isn't used. */
    make_sharing_child(STDIN_FILENO, STDIN_FILENO, 9);
    int atp = atoi(argv[2]), own = entries("/proc/self/fd") - 1, for_programs = of_program();

    int server = try_bind(SOCK_DGRAM, atoi(argv[1])), client = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in at = loopback(atoi(argv[1])), tcp_at = loopback(atoi(argv[3]));
    check(connect(client, (struct sockaddr *)&at, sizeof at) == 0, "connect");
    arrives(client, server, "before");
    make_sharing_child(server, client, 9);
    usleep(300000);
    check(!is_free(atp), "the library receives after vfork");
    arrives(client, server, "vfork");
    int listener = try_bind(SOCK_STREAM, atoi(argv[3])), end = socket(AF_INET, SOCK_STREAM, 0);
    check(listen(listener, 1) == 0, "listen");
    check(connect(end, (struct sockaddr *)&tcp_at, sizeof tcp_at) == 0, "connect");
    int accepted = accept(listener, NULL, NULL);
    check(accepted >= 0, "accept");
    int to_child[2], to_parent[2];
    check(pipe(to_child) == 0 && pipe(to_parent) == 0, "pipe");
    own += 5 + 4;
    check(entries("/proc/self/fd") > own + 1, "the library has descriptors");
    check(entries("/proc/self/task") > 1, "the library has threads");
    /* Programs that are started inherit the test's own nine alone. */
    check(of_program() == for_programs + 9, "the descriptors of a program");

    pid_t child = fork();
    if (child == 0) {
        alarm(LIMIT_S);
        check(entries("/proc/self/fd") == own + 1, "the child's descriptors");
        check(entries("/proc/self/task") == 1, "the child's threads");
        /* Neither process waits for one that has failed. */
        close(to_child[1]);
        arrives(client, server, "child");
        tell(to_parent[1]);
        wait_for(to_child[0]);
        /* The port's program receives no ATP, so the datagrams are plain after a while. */
        char bytes[16];
        do {
            send(client, "later", 5, MSG_NOSIGNAL);
            usleep(100000);
        } while (recv(server, bytes, sizeof bytes, MSG_DONTWAIT) != 5);
        exit(0);
    }
    close(to_parent[1]);
    wait_for(to_parent[0]);
    check(!is_free(atp), "the parent still receives");
    close(server);
    /* The child doesn't hold the port of ATP. */
    wait_until_free(atp);
    tell(to_child[1]);
    int status = 1;
    check(waitpid(child, &status, 0) == child && status == 0, "the child");
    puts("as expected");
    return 0;
}
