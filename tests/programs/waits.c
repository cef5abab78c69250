// Keeps memory that was freed, then waits: waits HOW. Each line on standard input ends a wait; what came of it goes to standard output, and
// memory is kept anew. `ready` says that it waits, or is about to.
#define _GNU_SOURCE
#include "trimmed.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 40000
static void *blocks[BLOCKS];
static volatile int ended;
static sem_t released;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

// 40 MB in blocks that are too large for caches, of which 1 in 1,000 stays.
static void keep(void) {
    static int stays;
    for (int i = 0; i < BLOCKS; i++) memset(blocks[i] = malloc(1040), 1, 1040);
    stays = (stays + 1) % 1000;
    for (int i = 0; i < BLOCKS; i++)
        if (i % 1000 != stays) free(blocks[i]);
}

static void say(const char *what, long result) {
    printf("%s %ld\n", what, result);
    fflush(stdout);
}

static char line(void) {
    char byte = 0, last = 0;
    while (read(0, &byte, 1) == 1 && byte != '\n') last = byte;
    return last;
}

static void on_signal(int signal) {
    (void)signal;
    ended = 1;
}

static void *read_lines(void *unused) {
    for (;;) {
        line();
        pthread_mutex_lock(&mutex);
        ended = 1;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
        sem_post(&released);
    }
    return unused;
}

// Objects by which a child of ours ends our waits: a thread that reads lines would be a better one to borrow.
static int queue, semaphores, locks[2], pair[2];
static struct { long type; char text[4]; } message = {7, "abc"};

static void begin_child(const char *how) {
    // Queues and semaphores go away with their namespace.
    unshare(CLONE_NEWIPC);
    queue = msgget(IPC_PRIVATE, 0600);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    locks[0] = memfd_create("lock", 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", locks[0]);
    locks[1] = open(path, O_RDWR);
    if (fork() != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        line();
        if (strcmp(how, "pause") == 0) kill(getppid(), SIGUSR1);
        if (strcmp(how, "msgrcv") == 0) msgsnd(queue, &message, sizeof message.text, 0);
        if (strncmp(how, "sem", 3) == 0) semop(semaphores, &(struct sembuf){0, 1, 0}, 1);
        if (strcmp(how, "flock") == 0) flock(locks[0], LOCK_UN);
        if (strcmp(how, "recvmmsg") == 0 || strcmp(how, "io_uring") == 0) send(pair[1], "abc", 4, 0);
    }
}

struct state {
    unsigned long general[9], vectors[32];
};

// read(2) with a value of its own in every register that a system call leaves alone.
static long read_with_registers(char *byte, struct state *state) {
    long result;
    __asm__ volatile(
        "push %%rbp\n mov %[state], %%rbp\n"
        "mov (%%rbp), %%rbx\n mov 8(%%rbp), %%r8\n mov 16(%%rbp), %%r9\n mov 24(%%rbp), %%r10\n mov 32(%%rbp), %%r12\n"
        "mov 40(%%rbp), %%r13\n mov 48(%%rbp), %%r14\n mov 56(%%rbp), %%r15\n"
        "movups 72(%%rbp), %%xmm0\n movups 88(%%rbp), %%xmm1\n movups 104(%%rbp), %%xmm2\n movups 120(%%rbp), %%xmm3\n"
        "movups 136(%%rbp), %%xmm4\n movups 152(%%rbp), %%xmm5\n movups 168(%%rbp), %%xmm6\n movups 184(%%rbp), %%xmm7\n"
        "movups 200(%%rbp), %%xmm8\n movups 216(%%rbp), %%xmm9\n movups 232(%%rbp), %%xmm10\n movups 248(%%rbp), %%xmm11\n"
        "movups 264(%%rbp), %%xmm12\n movups 280(%%rbp), %%xmm13\n movups 296(%%rbp), %%xmm14\n movups 312(%%rbp), %%xmm15\n"
        "std\n xor %%eax, %%eax\n xor %%edi, %%edi\n mov $1, %%edx\n syscall\n pushf\n cld\n"
        "mov %%rbx, (%%rbp)\n mov %%r8, 8(%%rbp)\n mov %%r9, 16(%%rbp)\n mov %%r10, 24(%%rbp)\n mov %%r12, 32(%%rbp)\n"
        "mov %%r13, 40(%%rbp)\n mov %%r14, 48(%%rbp)\n mov %%r15, 56(%%rbp)\n pop %%rbx\n and $0x400, %%rbx\n mov %%rbx, 64(%%rbp)\n"
        "movups %%xmm0, 72(%%rbp)\n movups %%xmm1, 88(%%rbp)\n movups %%xmm2, 104(%%rbp)\n movups %%xmm3, 120(%%rbp)\n"
        "movups %%xmm4, 136(%%rbp)\n movups %%xmm5, 152(%%rbp)\n movups %%xmm6, 168(%%rbp)\n movups %%xmm7, 184(%%rbp)\n"
        "movups %%xmm8, 200(%%rbp)\n movups %%xmm9, 216(%%rbp)\n movups %%xmm10, 232(%%rbp)\n movups %%xmm11, 248(%%rbp)\n"
        "movups %%xmm12, 264(%%rbp)\n movups %%xmm13, 280(%%rbp)\n movups %%xmm14, 296(%%rbp)\n movups %%xmm15, 312(%%rbp)\n"
        "pop %%rbp\n"
        : "=a"(result)
        : [state] "d"(state), "S"(byte)
        : "rbx", "rcx", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3",
          "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    return result;
}

static long registers(void) {
    struct state before, after;
    unsigned long *words = (unsigned long *)&before;
    for (size_t i = 0; i < sizeof before / 8; i++) words[i] = 0x0123456789abcdef * (i + 3);
    before.general[8] = 0x400;
    after = before;
    char byte;
    errno = 1234;
    long result = read_with_registers(&byte, &after);
    if (memcmp(&before, &after, sizeof before) != 0) return -1000;
    return errno == 1234 ? result : -2000;
}

static long error_or(long result, long good) {
    return result < 0 ? -errno : good;
}

// Gets an exclusive lock that another open file holds, and gives it back.
static long wait_for_lock(void) {
    flock(locks[0], LOCK_EX);
    long result = error_or(flock(locks[1], LOCK_EX), 0);
    flock(locks[1], LOCK_UN);
    return result;
}

// How many of four messages came: those that are there with the first one.
static long wait_for_messages(void) {
    char texts[4][4];
    struct iovec vectors[4];
    struct mmsghdr headers[4];
    memset(headers, 0, sizeof headers);
    for (int i = 0; i < 4; i++) {
        vectors[i] = (struct iovec){texts[i], sizeof texts[i]};
        headers[i].msg_hdr.msg_iov = &vectors[i];
        headers[i].msg_hdr.msg_iovlen = 1;
    }
    long result = recvmmsg(pair[0], headers, 4, MSG_WAITFORONE, NULL);
    return error_or(result, memcmp(texts[0], "abc", 4) == 0 ? result : -1000);
}

// The completions of one read that was submitted before: io_uring_enter submits nothing.
static long wait_for_completion(void) {
    static struct io_uring_params params;
    static char *queues, text[4];
    static struct io_uring_sqe *entries;
    static int ring = -1;
    if (ring < 0) {
        ring = (int)syscall(SYS_io_uring_setup, 1, &params);
        size_t bytes = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
        queues = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
        entries = mmap(NULL, sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    }
    unsigned *tail = (unsigned *)(queues + params.sq_off.tail);
    unsigned *head = (unsigned *)(queues + params.cq_off.head), *end = (unsigned *)(queues + params.cq_off.tail);
    memset(entries, 0, sizeof *entries);
    entries->opcode = IORING_OP_RECV;
    entries->fd = pair[0];
    entries->addr = (unsigned long)text;
    entries->len = sizeof text;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) != 1) return -3000;
    long result = syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    unsigned count = __atomic_load_n(end, __ATOMIC_ACQUIRE) - *head;
    __atomic_store_n(head, *head + count, __ATOMIC_RELEASE);
    return error_or(result, result == 0 && memcmp(text, "abc", 4) == 0 ? count : -1000);
}

static long wait_for(const char *how) {
    struct timespec long_time = {1000, 0};
    struct epoll_event event = {.events = EPOLLIN};
    fd_set set;
    sigset_t signals;
    siginfo_t information;
    FD_ZERO(&set);
    FD_SET(0, &set);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR2);
    if (strcmp(how, "read") == 0 || strcmp(how, "locked") == 0 || strcmp(how, "filtered") == 0) return registers();
    if (strcmp(how, "poll") == 0) return poll(&(struct pollfd){0, POLLIN, 0}, 1, 1000000);
    if (strcmp(how, "select") == 0) return select(1, &set, NULL, NULL, &(struct timeval){1000, 0});
    if (strcmp(how, "ppoll") == 0) return ppoll(&(struct pollfd){0, POLLIN, 0}, 1, &long_time, &signals);
    if (strncmp(how, "epoll", 5) == 0) {
        int epoll = epoll_create1(0);
        if (strcmp(how, "epoll") == 0) epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &event);
        long result = epoll_wait(epoll, &event, 1, 1000000);
        return result < 0 ? -errno : result;
    }
    if (strcmp(how, "nanosleep") == 0) return nanosleep(&long_time, NULL) == -1 ? -errno : 0;
    if (strcmp(how, "sigtimedwait") == 0) return sigtimedwait(&signals, &information, &long_time);
    if (strcmp(how, "semaphore") == 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1000;
        return sem_timedwait(&released, &until);
    }
    if (strcmp(how, "pause") == 0) return error_or(pause(), 0);
    if (strcmp(how, "msgrcv") == 0) return error_or(msgrcv(queue, &message, sizeof message.text, 7, 0), message.text[0]);
    // The rest of its value: a call that was begun twice would have taken from it twice.
    if (strcmp(how, "semop") == 0)
        return error_or(syscall(SYS_semop, semaphores, &(struct sembuf){0, -1, 0}, 1), semctl(semaphores, 0, GETVAL));
    if (strcmp(how, "semtimedop") == 0)
        return error_or(semtimedop(semaphores, &(struct sembuf){0, -1, 0}, 1, &long_time), semctl(semaphores, 0, GETVAL));
    if (strcmp(how, "flock") == 0) return wait_for_lock();
    if (strcmp(how, "recvmmsg") == 0) return wait_for_messages();
    if (strcmp(how, "io_uring") == 0) return wait_for_completion();
    pthread_mutex_lock(&mutex);
    while (!ended) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    return 0;
}

// Blocks of memory with known contents, passed on and checked; the result depends on nothing but the seed.
static void *torture(void *seed) {
    unsigned long random = (unsigned long)seed * 0x9e3779b97f4a7c15, sum = 0;
    unsigned char *held[512] = {0};
    size_t sizes[512];
    for (int round = 0; round < 150000; round++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        size_t slot = (random >> 33) % 512, size = (random >> 42) % 5000 + 1;
        if (held[slot] != NULL) {
            for (size_t i = 0; i < sizes[slot]; i += 64) sum = sum * 31 + held[slot][i];
            free(held[slot]);
        }
        held[slot] = malloc(size);
        sizes[slot] = size;
        memset(held[slot], round, size);
        if (round % 1000 == 0) usleep(10000);
    }
    for (int slot = 0; slot < 512; slot++) free(held[slot]);
    return (void *)sum;
}

static void *compute(void *seed) {
    return (void *)churn(&ended, (unsigned long)seed, 2000);
}

// Return addresses that earlier calls left below would look like a call of malloc that runs, in the gaps of later frames.
__attribute__((noinline)) static void clear_stack(void) {
    volatile char below[8192];
    for (size_t i = 0; i < sizeof below; i++) below[i] = 0;
}

static void computes(int count) {
    pthread_t threads[4];
    for (int i = 1; i < count; i++) pthread_create(&threads[i], NULL, compute, (void *)(size_t)i);
    say("ready", 0);
    clear_stack();
    unsigned long wrong = (unsigned long)compute(NULL);
    for (int i = 1; i < count; i++) {
        void *others;
        pthread_join(threads[i], &others);
        wrong += (unsigned long)others;
    }
    say("wrong", (long)wrong);
}

// Waits inside of a signal's handler, which may have interrupted anything.
static void on_wait(int signal) {
    (void)signal;
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &event);
    say("ready", 0);
    long result = epoll_wait(epoll, &event, 1, 1000000);
    say("handler", result < 0 ? -errno : result);
}

static void tortures(void) {
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, torture, (void *)(i + 1));
    say("ready", 0);
    for (size_t i = 0; i < 4; i++) {
        void *sum;
        pthread_join(threads[i], &sum);
        say("sum", (long)((unsigned long)sum >> 1));
    }
}

static volatile long ticks;

static void on_tick(int signal) {
    (void)signal;
    // Too large for the tcache, so that each takes the arena's lock.
    static void *held[64];
    free(held[ticks % 64]);
    held[ticks % 64] = malloc(2000 + ticks % 3000);
    ticks++;
}

// A timer of 10 kHz whose handler allocates; the program itself does not, meanwhile.
static void timer(void) {
    struct itimerspec period = {{0, 100000}, {0, 100000}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t id;
    signal(SIGUSR1, on_tick);
    timer_create(CLOCK_MONOTONIC, &event, &id);
    // Writing allocates, too.
    say("ready", 0);
    timer_settime(id, 0, &period, NULL);
    char byte;
    while (read(0, &byte, 1) != 1 || byte != '\n') {}
    timer_delete(id);
    say("ticks", ticks > 0);
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "";
    if (strcmp(how, "torture") == 0) return tortures(), 0;
    keep();
    if (strcmp(how, "timer") == 0) return timer(), 0;
    if (strcmp(how, "handler") == 0) {
        signal(SIGUSR1, on_wait);
        return raise(SIGUSR1);
    }
    if (strcmp(how, "locked") == 0 && mlockall(MCL_CURRENT) != 0) return 3;
    if (strcmp(how, "filtered") == 0 && kill_for_madvise() != 0) return 4;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    clear_stack();
    if (strcmp(how, "compute") == 0) return computes(1), 0;
    if (strcmp(how, "computes") == 0) return computes(4), 0;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    sem_init(&released, 0, 0);
    pthread_t reader;
    const char *with_child[] = {"pause", "msgrcv", "semop", "semtimedop", "flock", "recvmmsg", "io_uring"};
    for (size_t i = 0; i < sizeof with_child / sizeof *with_child; i++)
        if (strcmp(how, with_child[i]) == 0) begin_child(how);
    int has_reader = strcmp(how, "semaphore") == 0 || strcmp(how, "condition") == 0;
    if (has_reader) pthread_create(&reader, NULL, read_lines, NULL);
    for (;;) {
        say("ready", 0);
        say(how, wait_for(how));
        ended = 0;
        if (strcmp(how, "poll") == 0 || strcmp(how, "ppoll") == 0 || strcmp(how, "select") == 0 || strcmp(how, "epoll") == 0)
            if (line() == 'q') return 0;
        if (strcmp(how, "locked") != 0) keep();
    }
}
