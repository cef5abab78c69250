/* makecontext and swapcontext: 200 coroutines on small stacks from malloc and mmap, resumed by two threads in turn, that
   allocate and free each other's blocks; none of these stacks is known to anybody.
   representative */
#include "hostile.h"
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { COROUTINES = 200, TURNS = 20, STACK = 16 << 10 };
static ucontext_t contexts[COROUTINES], scheduler;
static void *blocks[COROUTINES];
static int turns_done;

static void coroutine(int number) {
    for (int turn = 0; turn < TURNS; turn++) {
        int other = (number * 7 + turn) % COROUTINES;
        free(blocks[other]);
        blocks[other] = used(50 + number);
        churn(5);
        turns_done++;
        swapcontext(&contexts[number], &scheduler);
    }
    for (;;) swapcontext(&contexts[number], &scheduler);
}

static void *resume_all(void *unused) {
    for (int turn = 0; turn < TURNS / 2; turn++) {
        for (int i = 0; i < COROUTINES; i++) CHECK(swapcontext(&scheduler, &contexts[i]) == 0);
    }
    return unused;
}

static void make(int number, ucontext_t *context) {
    int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *stack = number % 2 ? used(STACK) : mmap(NULL, STACK, protection, flags, -1, 0);
    CHECK(stack != MAP_FAILED && getcontext(context) == 0);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = STACK;
    makecontext(context, (void (*)(void))coroutine, 1, number);
}

int main(void) {
    for (int i = 0; i < COROUTINES; i++) make(i, &contexts[i]);
    resume_all(NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, resume_all, NULL);
    pthread_join(thread, NULL);
    printf("%d turns\n", turns_done);
    return 0;
}
