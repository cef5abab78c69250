/* Holds memory of two kinds, frees some, and waits. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *hold(size_t bytes) {
  void *block = malloc(bytes);
  memset(block, 1, bytes);
  return block;
}

int main(void) {
  for (int i = 0; i < 3000; i++)
    hold(10000);
  for (int i = 0; i < 3000; i++)
    if (i % 8)
      free(hold(4000));
    else
      hold(4000);
  puts("ready");
  fflush(stdout);
  pause();
}
