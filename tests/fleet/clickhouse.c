/* A ClickHouse server out of the public C interface of libchdb: runs the queries of its command line as clickhouse-local does. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct result {
    char *bytes;
    size_t length;
    void *vector;
    double elapsed;
    uint64_t rows_read, bytes_read;
    char *error_message;
};

struct result *query_stable_v2(int argc, char **argv);

int main(int argc, char **argv) {
    struct result *result = query_stable_v2(argc, argv);
    if (!result || result->error_message) {
        fprintf(stderr, "%s\n", result ? result->error_message : "no result");
        return 1;
    }
    return 0;
}
