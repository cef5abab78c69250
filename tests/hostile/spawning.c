/* Every way to start another program: posix_spawn, vfork and exec, fexecve, popen, system, exec that fails and goes on, exec
   with an empty environment, exec over itself from a second thread.
   in-flight: 1
   representative */
#include "hostile.h"
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>

extern char **environ;
static char *self[] = {"/proc/self/exe", "child", NULL};

static void *exec_here(void *unused) {
    churn(100);
    execve("/proc/self/exe", (char *[]){"spawning", "child", NULL}, environ);
    return unused;
}

int main(int count, char **arguments) {
    churn(500);
    if (count > 1 && !strcmp(arguments[1], "child")) return 7;
    if (count > 1) {
        /* The image goes while another thread is in malloc. */
        pthread_t thread;
        pthread_create(&thread, NULL, exec_here, NULL);
        for (;;) churn(100);
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    pid_t child;
    CHECK(posix_spawn(&child, self[0], NULL, NULL, self, environ) == 0);
    printf("posix_spawn %d\n", status_of(child));
    posix_spawn_file_actions_t actions;
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
    CHECK(posix_spawn_file_actions_addopen(&actions, 9, "/dev/null", O_RDONLY, 0) == 0);
    CHECK(posix_spawn(&child, self[0], &actions, NULL, self, environ) == 0);
    printf("posix_spawn with actions %d\n", status_of(child));
    CHECK(posix_spawn(&child, "/proc/self/absent", &actions, NULL, self, environ) == ENOENT);
    posix_spawn_file_actions_destroy(&actions);
    CHECK(posix_spawnp(&child, "true", NULL, NULL, (char *[]){"true", NULL}, environ) == 0);
    printf("posix_spawnp %d\n", status_of(child));

    child = vfork();
    if (child == 0) {
        execve(self[0], self, environ);
        _exit(98);
    }
    printf("vfork, exec %d\n", status_of(child));
    child = vfork();
    if (child == 0) {
        execve("/proc/self/absent", self, environ);
        _exit(3);
    }
    printf("vfork, exec that fails %d\n", status_of(child));
    child = fork();
    if (child == 0) {
        CHECK(execve("/", self, environ) == -1 && errno == EACCES);
        churn(300);
        CHECK(execve("/proc/self/absent", self, environ) == -1 && errno == ENOENT);
        execve(self[0], self, environ);
    }
    printf("fork, exec at the third try %d\n", status_of(child));
    CHECK(execve("/proc/self/absent", self, environ) == -1);
    child = fork();
    if (child == 0) {
        int file = open(self[0], O_RDONLY | O_CLOEXEC);
        churn(100);
        fexecve(file, self, environ);
    }
    printf("fexecve %d\n", status_of(child));
    child = fork();
    if (child == 0) execve(self[0], self, (char *[]){NULL});
    printf("exec without environment %d\n", status_of(child));
    child = fork();
    if (child == 0) execve(self[0], (char *[]){"spawning", "threads", NULL}, environ);
    printf("exec while a thread allocates %d\n", status_of(child));

    printf("system %d\n", WEXITSTATUS(system("exit 5")));
    FILE *pipe = popen("echo from a pipe", "r");
    char line[100];
    CHECK(pipe && fgets(line, sizeof line, pipe));
    fputs(line, stdout);
    printf("pclose %d\n", pclose(pipe));
    return 0;
}
