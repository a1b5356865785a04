/* Goes around libc: `bypass` makes a socket with an instruction of its own and asks for io_uring,
 * `bypass libc` makes one with libc. Both print whether all calls did as without a filter. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static long raw_socket(long domain, long type) {
    long result;
#if defined(__x86_64__)
    register long protocol __asm__("rdx") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_socket), "D"(domain), "S"(type), "r"(protocol)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long x0 __asm__("x0") = domain, x1 __asm__("x1") = type, x2 __asm__("x2") = 0;
    register long x8 __asm__("x8") = SYS_socket;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x1), "r"(x2), "r"(x8) : "memory");
    result = x0;
#endif
    return result;
}

int main(int argc, char **argv) {
    (void)argv;
    int good = socket(AF_INET, SOCK_DGRAM, 0) >= 0;
    if (argc == 1) {
        for (int i = 0; i < 3; i++) {
            good &= raw_socket(AF_INET6, SOCK_STREAM) >= 0 || errno == EAFNOSUPPORT;
            /* Without parameters it is an error, as without a filter. */
            good &= syscall(SYS_io_uring_setup, 0, NULL) == -1 && errno != ENOTCONN;
        }
    }
    puts(good ? "as usual" : "otherwise");
    return 0;
}
