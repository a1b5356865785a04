/* Helpers of the cases in calls.c and received.c: a server and its clients in one process. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(good) check(!!(good), #good, __FILE__, __LINE__)
/* The call fails, with this errno. */
#define FAILS(call, error) CHECK((errno = 0, (call) == -1) && errno == (error))

struct named_case {
    const char *name;
    void (*run)(void);
};

/* Cases of what a program sends, of what it receives, and of how it ends. */
extern const struct named_case sending_cases[], receiving_cases[], leaving_cases[];

/* The server's socket, and its address. */
extern int server;
extern struct sockaddr_in at;
/* The address of a listening TCP socket. */
extern struct sockaddr_in tcp_at;

void check(int good, const char *what, const char *file, int line);
const struct sockaddr *address(const struct sockaddr_in *of);
struct sockaddr_in own_address(int fd);
int same(const struct sockaddr_in *one, const struct sockaddr_in *other);
/* A client's socket, which may be connected to the server. */
int new_client(int is_connected);
/* A length that the compiler doesn't know: it then calls glibc's checked form. */
size_t unknown(size_t len);
/* The server receives these bytes from this socket, and nothing else. */
void arrives(int from, const void *bytes, size_t len);
/* Sends a byte to the server, and waits until it is there. */
void send_byte(int client, char byte);
/* The child ends well. */
void ends_well(pid_t child);
