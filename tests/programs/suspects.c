/* One of each: a leak, a list that is never cleared, a cache, a table built at the start, a heap that is collected and cleared, churn. For as many
   seconds as the first argument says, then dies; without an argument until it is killed. Writes a line when the table is built, and before it dies how
   many turns it took and how many milliseconds the longest one. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CACHE 150
#define COLLECTED 300

struct node {
    struct node *next;
    char payload[200];
};

static void *volatile sink;
static void *table[500];
static void *cache[CACHE];
static void *collected[COLLECTED];
static struct node *list;

static void site_leak(void) { sink = malloc(64); }

static void site_reachable(void) {
    struct node *node = malloc(sizeof *node);
    node->next = list;
    list = node;
}

static void site_cache(unsigned turn) {
    free(cache[turn % CACHE]);
    cache[turn % CACHE] = malloc(300);
}

static void site_start_up(void) {
    for (int i = 0; i < 500; i++)
        table[i] = malloc(128);
}

static void site_sawtooth(unsigned turn) {
    if (turn % COLLECTED == 0)
        for (int i = 0; i < COLLECTED; i++) {
            free(collected[i]);
            collected[i] = NULL;
        }
    collected[turn % COLLECTED] = malloc(100);
}

static void site_churn(void) {
    static void *last;
    free(last);
    last = malloc(1000);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

int main(int count, char **arguments) {
    double end = count > 1 ? now() + atof(arguments[1]) : 1e300;
    site_start_up();
    puts("built");
    fflush(stdout);
    double last = now(), longest = 0;
    unsigned turn = 0;
    for (; last < end; turn++) {
        site_leak();
        site_reachable();
        site_cache(turn);
        site_sawtooth(turn);
        site_churn();
        usleep(2000);
        double time = now();
        longest = time - last > longest ? time - last : longest;
        last = time;
    }
    printf("%u turns, longest %.0f ms\n", turn, longest * 1000);
    fflush(stdout);
    raise(SIGKILL);
}
