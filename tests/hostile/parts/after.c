#include "before.c"
