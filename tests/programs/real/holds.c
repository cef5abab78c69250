// Holds 100 blocks of one function and 50 of another, says so, waits for the end of input without allocating, exits with the
// status given.
#include <stdio.h>
#include <stdlib.h>

static void *volatile kept[150];

static void *hold(size_t size) {
  void *block = malloc(size); /* in hold */
  return block;
}

static inline __attribute__((always_inline)) void *inlined(size_t size) {
  void *block = calloc(1, size); /* in inlined */
  return block;
}

static void caller_of_inlined(int from) {
  for (int at = from; at < 150; at++) kept[at] = inlined(500); /* in caller_of_inlined */
}

int main(int count, char **arguments) {
  setvbuf(stdin, NULL, _IONBF, 0);
  for (int at = 0; at < 100; at++) kept[at] = hold(1000);
  caller_of_inlined(100);
  for (int at = 0; at < 1000; at++) free(hold(2000));
  puts("ready");
  fflush(stdout);
  while (getchar() != EOF) {}
  return count > 1 ? atoi(arguments[1]) : 0;
}
