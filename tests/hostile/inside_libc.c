/* Memory that the C library allocates and the program frees, and the other way round: getline, getdelim, asprintf, open_memstream,
   strdup, realpath, getcwd, scandir, glob, regcomp, qsort of much, wordexp, obstacks, scanf's %m, setvbuf, tsearch, hsearch. */
#include <dirent.h>
#include <glob.h>
#include <limits.h>
#include <obstack.h>
#include <regex.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>
#include <wordexp.h>

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

static int ascending(const void *a, const void *b) { return memcmp(a, b, 8); }

static void streams(void) {
    char *text = NULL, *line = malloc(1);
    size_t size = 0, room = 1;
    FILE *stream = open_memstream(&text, &size);
    for (int i = 0; i < 3000; i++) fprintf(stream, "line %d of many\n", i);
    fclose(stream);
    stream = fmemopen(text, size, "r");
    long sum = 0;
    while (getline(&line, &room, stream) > 0) sum += strlen(line);
    rewind(stream);
    while (getdelim(&line, &room, 'y', stream) > 0) sum += strlen(line);
    fclose(stream);
    free(line);
    free(text);
    printf("streams %ld\n", sum);
    char *word = NULL, *copy;
    sum = sscanf("  something else", "%ms", &word);
    sum += asprintf(&copy, "%s %0*d", word, 20000, 7);
    printf("words %ld %s %s\n", sum, word, copy + strlen(copy) - 3);
    free(copy);
    free(word);
    wchar_t *wide = wcsdup(L"wide");
    printf("%ls\n", wide);
    free(wide);
}

static void files(void) {
    struct dirent **names;
    int count = scandir("/proc/self/fd", &names, NULL, alphasort);
    for (int i = 0; i < count; i++) free(names[i]);
    if (count >= 0) free(names);
    char *path = realpath("/proc/../dev/./null", NULL), *current = getcwd(NULL, 0), *line = canonicalize_file_name("/");
    printf("files %d %s %d %s\n", count > 2, path, current != NULL, line);
    free(path);
    free(current);
    free(line);
    glob_t found;
    printf("glob %d", glob("/dev/{null,zero}", GLOB_BRACE, NULL, &found));
    printf(" %zu\n", found.gl_pathc);
    globfree(&found);
    wordexp_t words;
    printf("wordexp %d", wordexp("a $LC_ALL/x 'd e'", &words, WRDE_NOCMD));
    printf(" %s\n", words.we_wordv[1]);
    wordfree(&words);
    FILE *null = fopen("/dev/null", "w");
    setvbuf(null, malloc(100000), _IOFBF, 100000);
    fclose(null);
    puts("");
}

static void searches(void) {
    regex_t expression;
    regmatch_t matches[3];
    regcomp(&expression, "^(a+)(b|c)*$", REG_EXTENDED);
    printf("regex %d %d\n", regexec(&expression, "aaabcbc", 3, matches, 0), matches[1].rm_eo);
    regfree(&expression);
    char *items = malloc(8 * 100000);
    for (int i = 0; i < 100000; i++) snprintf(items + i * 8, 8, "%07d", i * 7919 % 100000);
    qsort(items, 100000, 8, ascending); /* More than qsort sorts on the stack. */
    printf("qsort %s\n", items + 8 * 4711);
    void *tree = NULL;
    for (int i = 0; i < 1000; i++) tsearch(items + i * 80, &tree, ascending);
    for (int i = 0; i < 1000; i++) tdelete(items + i * 80, &tree, ascending);
    printf("tree %d\n", tree != NULL);
    free(items);
}

static void obstacks(void) {
    struct obstack stack;
    obstack_init(&stack);
    char *first = obstack_copy0(&stack, "first", 5);
    for (int i = 0; i < 10000; i++) obstack_printf(&stack, "%d", i);
    obstack_1grow(&stack, 0);
    printf("obstack %zu", strlen(obstack_finish(&stack)));
    obstack_free(&stack, first);
    obstack_free(&stack, NULL);
    puts("");
}

int main(void) {
    for (int i = 0; i < 5; i++) {
        streams();
        files();
        searches();
        obstacks();
        setenv("A_VARIABLE", "value", 1);
        putenv(strdup("ANOTHER=value"));
        unsetenv("A_VARIABLE");
    }
    return 0;
}
