/* Allocates and frees while everything ends: destructors of thread_local objects, of pthread keys in every round, atexit and
   on_exit handlers, handlers that register further ones, static destructors, and destructors of libraries before and after
   ramson's own.
   lib: before.c
   lib: after.c
   build: -rdynamic
   preload: before {built}/before.so
   preload: after {built}/after.so
   ends: 3
   representative */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <thread>
#include <vector>

extern "C" {
char *kept[16];
int kept_count;
void keep(const char *text) { kept[kept_count++] = strdup(text); }
}

static pthread_key_t key;
static int rounds;

static void say(const char *text, int number) {
    char *copy;
    if (asprintf(&copy, "%s %d", text, number) < 0) abort();
    puts(copy);
    fflush(stdout);
    free(copy);
}

struct Keeps {
    std::vector<std::string> strings;
    const char *where;
    explicit Keeps(const char *where) : strings(100, std::string(3000, 'x')), where(where) {}
    ~Keeps() {
        std::vector<std::string> copy(strings);
        strings.clear();
        say(where, copy.size());
    }
};

static thread_local Keeps of_thread("thread_local");
static Keeps of_program("static");

static void key_ends(void *value) {
    free(value);
    if (++rounds % PTHREAD_DESTRUCTOR_ITERATIONS != 0) pthread_setspecific(key, malloc(5000));
    say("key", rounds);
}

static void in_thread() {
    pthread_setspecific(key, malloc(5000));
    say("thread", of_thread.strings.size());
}

static void at_exit_again() { say("atexit, registered by atexit", 0); }
static void at_exit() {
    say("atexit", 0);
    atexit(at_exit_again);
    std::thread(in_thread).join();
}
static void on_exit_handler(int status, void *argument) {
    say("on_exit", status);
    free(argument);
}

int main() {
    pthread_key_create(&key, key_ends);
    atexit(at_exit);
    on_exit(on_exit_handler, malloc(12345));
    std::thread(in_thread).join();
    in_thread();
    exit(3);
}
