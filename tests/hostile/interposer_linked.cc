/* Another library interposes malloc, linked by the program, not preloaded: it must be called exactly as often as without.
   varies-attached: interposer:
   lib: interposer.c -ldl
   build: {built}/interposer.so -Wl,-rpath,{built} */
#include "parts/family_calls.h"
