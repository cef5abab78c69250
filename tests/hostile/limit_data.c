/* RLIMIT_DATA: private writable memory runs out; malloc returns NULL and the program goes on. */
#include "hostile.h"
#include <sys/resource.h>

int main(void) {
    churn(1000);
    CHECK(setrlimit(RLIMIT_DATA, &(struct rlimit){1200 << 20, 1200 << 20}) == 0);
    for (int round = 0; round < 3; round++) {
        static void *blocks[100000];
        int count = 0;
        while (count < 100000 && (blocks[count] = malloc(200 << 10)) != NULL) count++;
        CHECK(count > 0 && count < 100000 && errno == ENOMEM);
        while (count > 0) free(blocks[--count]);
        churn(1000);
    }
    puts("NULL, then on");
    return 0;
}
