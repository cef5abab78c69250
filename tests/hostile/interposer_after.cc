/* Another library interposes malloc, preloaded after ramson: it must be called exactly as often as without.
   varies-attached: interposer:
   lib: interposer.c -ldl
   preload: after {built}/interposer.so
   representative */
#include "parts/family_calls.h"
