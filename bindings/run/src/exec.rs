//! Calls after which the process goes on without this library's threads: other programs, and a
//! child in the background. Also `syscall`, which may end the process.
//!
//! Connections that the program has closed are brought to their end before. Some of these functions
//! take any number of arguments, so each is a jump to libc's own with the registers as they were.

use crate::state;
use std::{
    ffi::CStr,
    sync::atomic::{AtomicUsize, Ordering},
};

macro_rules! leaving {
    ($($index:literal $name:ident;)+) => {
        const NAMES: &[&CStr] = &[$(
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name"),
            },
        )+];

        $(
            /// # Safety
            /// As libc's function of that name.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                std::arch::naked_asm!(
                    // The arguments, and the number of vector registers.
                    "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                    "mov edi, {index}",
                    "call {before}",
                    "mov r11, rax",
                    "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                    "jmp r11",
                    index = const $index,
                    before = sym before,
                );
                #[cfg(target_arch = "aarch64")]
                std::arch::naked_asm!(
                    "stp x29, x30, [sp, #-80]!",
                    "stp x0, x1, [sp, #16]",
                    "stp x2, x3, [sp, #32]",
                    "stp x4, x5, [sp, #48]",
                    "stp x6, x7, [sp, #64]",
                    "mov w0, #{index}",
                    "bl {before}",
                    "mov x16, x0",
                    "ldp x0, x1, [sp, #16]",
                    "ldp x2, x3, [sp, #32]",
                    "ldp x4, x5, [sp, #48]",
                    "ldp x6, x7, [sp, #64]",
                    "ldp x29, x30, [sp], #80",
                    "br x16",
                    index = const $index,
                    before = sym before,
                );
            }
        )+
    };
}

leaving! {
    0 execve;
    1 execv;
    2 execvp;
    3 execvpe;
    4 execl;
    5 execlp;
    6 execle;
    7 execveat;
    8 fexecve;
    9 daemon;
}

/// # Safety
/// As libc's function of that name.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall() {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!(
        "cmp rdi, {exit_group}",
        "je 2f",
        "mov r11, qword ptr [rip + {next}]",
        "test r11, r11",
        "je 2f",
        "jmp r11",
        "2:",
        "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
        "call {before}",
        "mov r11, rax",
        "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
        "jmp r11",
        exit_group = const libc::SYS_exit_group,
        next = sym NEXT_SYSCALL,
        before = sym before_syscall,
    );
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!(
        "cmp x0, #{exit_group}",
        "b.eq 2f",
        "adrp x16, {next}",
        "ldr x16, [x16, :lo12:{next}]",
        "cbz x16, 2f",
        "br x16",
        "2:",
        "stp x29, x30, [sp, #-80]!",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "stp x6, x7, [sp, #64]",
        "bl {before}",
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x2, x3, [sp, #32]",
        "ldp x4, x5, [sp, #48]",
        "ldp x6, x7, [sp, #64]",
        "ldp x29, x30, [sp], #80",
        "br x16",
        exit_group = const libc::SYS_exit_group,
        next = sym NEXT_SYSCALL,
        before = sym before_syscall,
    );
}

/// Libc's `syscall`.
static NEXT_SYSCALL: AtomicUsize = AtomicUsize::new(0);

/// Libc's functions, by index.
static NEXT: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];

/// Looks up libc's functions when the library is loaded: the child of a `vfork` couldn't.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = look_up;

extern "C" fn look_up() {
    let all = NAMES.iter().zip(&NEXT).chain([(&c"syscall", &NEXT_SYSCALL)]);
    for (name, next) in all {
        // SAFETY: the name ends with 0.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }.addr();
        next.store(address, Ordering::Relaxed);
    }
}

/// Runs before a call, and returns libc's function.
extern "C" fn before(index: usize) -> usize {
    let next = &NEXT[index];
    if next.load(Ordering::Relaxed) == 0 {
        look_up();
    }
    state::leave_program();
    next.load(Ordering::Relaxed)
}

/// Runs before `syscall`, if that ends the process or isn't looked up yet, and returns libc's.
extern "C" fn before_syscall(number: libc::c_long) -> usize {
    if NEXT_SYSCALL.load(Ordering::Relaxed) == 0 {
        look_up();
    }
    if number == libc::SYS_exit_group {
        state::end_process(false);
    }
    NEXT_SYSCALL.load(Ordering::Relaxed)
}
