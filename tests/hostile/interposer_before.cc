/* Another library interposes malloc, preloaded before ramson: it must be called exactly as often as without.
   varies-attached: interposer:
   lib: interposer.c -ldl
   preload: before {built}/interposer.so
   representative */
#include "parts/family_calls.h"
