/* The cycle counter, and with it every precise clock, is SIGSEGV (PR_SET_TSC): before the first sample and after one, set through prctl
   and through syscall, inherited by threads and children, allowed again by one thread while another still has it forbidden.
   representative */
#include "hostile.h"
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void set(int way, int setting) {
    CHECK((way ? syscall(SYS_prctl, PR_SET_TSC, setting, 0, 0, 0) : prctl(PR_SET_TSC, setting)) == 0);
}

/* Long enough for several of the windows in which ramson sums up its cost. */
static void *allocate(void *unused) {
    for (int i = 0; i < 8; i++) {
        churn(300);
        take_a_certain_sample();
        usleep(30000);
    }
    return unused;
}

static pthread_barrier_t both;

static void *allocate_when_the_other_may_again(void *unused) {
    int setting;
    CHECK(prctl(PR_GET_TSC, &setting) == 0 && setting == PR_TSC_SIGSEGV);
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    return allocate(unused);
}

static int try(int way, int is_sampled_before) {
    pid_t child = fork(), grandchild;
    if (child != 0) return status_of(child);
    if (is_sampled_before) take_a_certain_sample();
    set(way, PR_TSC_SIGSEGV);
    allocate(NULL);
    if ((grandchild = fork()) == 0) exit(allocate(NULL) == NULL ? 3 : 4);
    CHECK(status_of(grandchild) == 3);
    pthread_t thread;
    CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, allocate_when_the_other_may_again, NULL) == 0);
    pthread_barrier_wait(&both);
    set(way, PR_TSC_ENABLE);
    pthread_barrier_wait(&both);
    CHECK(pthread_join(thread, NULL) == 0);
    allocate(NULL);
    set(way, PR_TSC_SIGSEGV);
    set(way, PR_TSC_ENABLE);
    allocate(NULL);
    exit(5);
}

int main(void) {
    churn(1000);
    for (int way = 0; way < 2; way++) {
        for (int is_sampled_before = 0; is_sampled_before < 2; is_sampled_before++) {
            printf("%d\n", try(way, is_sampled_before));
            fflush(stdout);
        }
    }
    return 0;
}
